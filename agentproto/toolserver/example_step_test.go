package toolserver_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/toolserver"
)

// A printer takes jobs, which must not be printed twice, and is asked for them by number.
type printer struct{}

func (printer) Print(context.Context, string) (job string, err error) { return "17", nil }
func (printer) Wait(_ context.Context, job string) (string, error)    { return "printed job " + job, nil }

// A job is begun once, and waited for again after a restart. If the process ends between the
// two, nobody knows whether it was begun.
func ExampleStep() {
	server := toolserver.New(toolserver.Options{Name: "office", PublicURL: "https://tools.example.com"})
	toolserver.Add(server, "print", "Prints a text.", func(ctx context.Context, in struct{ Text string }) (string, error) {
		job, err := toolserver.Step(ctx, "job", func(ctx context.Context) (string, error) {
			if err := toolserver.Began(ctx); errors.Is(err, toolserver.ErrBegan) {
				return "", errors.New("the text may have been printed; it was not printed again")
			} else if err != nil {
				return "", err
			}
			return printer{}.Print(ctx, in.Text)
		})
		if err != nil {
			return "", err
		}
		return printer{}.Wait(ctx, job)
	})
	fmt.Println(server.Manifest().Tools[0].Name)
	// Output: print
}

// Tools that are known only when the program runs, and change.
func ExampleServer_Replace() {
	server := toolserver.New(toolserver.Options{Name: "plugins", PublicURL: "https://tools.example.com"})
	err := server.Replace([]toolserver.Tool{{
		Name: "greet", Description: "Greets somebody.",
		Schema: []byte(`{"type":"object","properties":{"name":{"type":"string"}}}`),
		Call: func(_ context.Context, args []byte) (*agentproto.ToolResult, error) {
			text := "Hello, " + string(args)
			return &agentproto.ToolResult{Text: &text}, nil
		},
	}})
	fmt.Println(len(server.Manifest().Tools), err)
	// Output: 1 <nil>
}
