package follow_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/agentproto/follow"
	"github.com/millrace/millrace/agentproto/host"
)

// A client follows a thread and receives its messages until it is closed.
func Example() {
	ctx := context.Background()
	rt, err := host.Start(ctx, host.Options{Model: conversation.Script{{Text: "Hello, Ada."}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Stop(ctx)
	mux := http.NewServeMux()
	mux.Handle("GET /threads/{thread}/events", follow.New(rt, follow.Options{}))
	server := httptest.NewServer(mux)
	defer server.Close()

	thread, err := rt.OpenSession(ctx, host.SessionRequest{ID: "session-1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := thread.Say(ctx, "I am Ada."); err != nil {
		fmt.Println(err)
	}
	client := follow.Client{URL: server.URL}
	for e, err := range client.Follow(ctx, "session-1", 1) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if m := e.Message; m != nil {
			fmt.Println(m.N, m.Kind, m.Text)
		}
		if e.Message != nil && e.Message.Kind == "assistant" {
			if err := thread.Close(ctx); err != nil {
				fmt.Println(err)
			}
		}
	}
	// Output:
	// 1 user I am Ada.
	// 2 assistant Hello, Ada.
	// 3 closed
}
