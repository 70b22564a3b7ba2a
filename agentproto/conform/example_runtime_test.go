package conform_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/millrace/millrace/agentproto/conform"
)

// Run the cases about results against a runtime that is started with a command.
func ExampleRunRuntime() {
	report, err := conform.RunRuntime(context.Background(), conform.RuntimeCommand{
		Args: []string{"my-runtime", "--conformance"}, // the file with the configuration is appended
	}, conform.Options{Run: "R.."})
	if err != nil {
		log.Fatal(err)
	}
	report.WriteTable(os.Stdout)
	os.Exit(report.ExitCode())
}

// A client of the control interface is useful without the cases, too.
func ExampleControl() {
	ctx := context.Background()
	c := conform.NewControl("http://127.0.0.1:41234", "token") // the members control and token of the line that the runtime has printed
	session, err := c.Open(ctx, conform.SessionRequest{ID: "s"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(session.Tools)
	err = c.Say(ctx, "s", conform.Turn{Calls: []conform.TurnCall{{ID: "c", Operation: "echo", Arguments: map[string]any{"text": "hello"}}}})
	if err != nil {
		log.Fatal(err)
	}
	thread, err := c.Thread(ctx, "s")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(thread.Calls, thread.History)
}
