package host_test

import (
	"context"
	"fmt"
	"log"

	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/agentproto/host"
)

// A model makes two calls at once, gets both results and answers.
func ExampleRuntime_OpenSession() {
	server := greeter()
	defer server.Close()
	ctx := context.Background()

	model := conversation.Script{
		{Calls: []conversation.Call{
			{ID: "1", Name: "greet", Arguments: `{"whom":"Ada"}`},
			{ID: "2", Name: "greet", Arguments: `{"whom":"Grace"}`},
		}},
		{Text: "Both are greeted."},
	}
	rt, err := host.Start(ctx, host.Options{Toolsets: []string{server.URL}, Model: model})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Stop(ctx)

	thread, err := rt.OpenSession(ctx, host.SessionRequest{ID: "session-1"})
	if err != nil {
		log.Fatal(err)
	}
	if err := thread.Say(ctx, "Greet Ada and Grace."); err != nil {
		log.Fatal(err)
	}
	for m, err := range thread.Follow(ctx, 1) { // message 0 says that the thread was opened
		if err != nil {
			log.Fatal(err)
		}
		switch {
		case m.Kind == conversation.Result:
			fmt.Println(m.N, "result of", m.Result.ID+":", m.Result.Text())
		case len(m.Calls) > 0:
			fmt.Println(m.N, m.Kind, "makes", len(m.Calls), "calls")
		default:
			fmt.Println(m.N, m.Kind.String()+":", m.Text)
		}
		if m.Kind == conversation.Assistant && len(m.Calls) == 0 {
			break
		}
	}
	// Output:
	// 1 user: Greet Ada and Grace.
	// 2 assistant makes 2 calls
	// 3 result of 1: Hello, Ada!
	// 4 result of 2: Hello, Grace!
	// 5 assistant: Both are greeted.
}
