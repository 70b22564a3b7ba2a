package toolserver_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/toolserver"
)

// A printer accepts jobs, which must not be printed twice, and waits for them by number.
type printer struct{}

func (printer) Print(context.Context, string) (job string, err error) { return "17", nil }
func (printer) Wait(_ context.Context, job string) (string, error)    { return "printed job " + job, nil }

// This example starts a job once, and waits for it again after a restart. If the process ends
// during the step, it is unknown whether the job was started.
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

// This example orders something from a shop, whose page asks the user to confirm. It asks the shop repeatedly whether the user
// has confirmed. After a restart it asks for the same order.
func ExampleSendTo() {
	server := toolserver.New(toolserver.Options{Name: "shop", PublicURL: "https://tools.example.com"})
	toolserver.Add(server, "order", "Orders something.", func(ctx context.Context, in struct{ What string }) (string, error) {
		order, err := toolserver.Step(ctx, "order", func(ctx context.Context) (string, error) { return shop{}.Order(ctx, in.What) })
		if err != nil {
			return "", err
		}
		err = toolserver.SendTo(ctx, "https://shop.example.com/orders/"+order, func(ctx context.Context) error { return shop{}.Confirmed(ctx, order) })
		if errors.Is(err, toolserver.ErrNoAnswer) {
			return "the user did not confirm the order", nil
		}
		return "ordered", err
	})
	fmt.Println(server.Manifest().Tools[0].Name)
	// Output: order
}

// A shop accepts orders, which users have to confirm on its pages.
type shop struct{}

func (shop) Order(context.Context, string) (order string, err error) { return "17", nil }
func (shop) Confirmed(context.Context, string) error                 { return nil }

// In this example the tool learns its provider only when it runs. If the service refuses the token, the token is renewed, or the
// user is asked again.
func ExampleAuthorize() {
	server := toolserver.New(toolserver.Options{Name: "files", PublicURL: "https://tools.example.com"})
	toolserver.Add(server, "list", "Lists files.", func(ctx context.Context, in struct{ Service string }) (string, error) {
		err := server.SetProvider(toolserver.OAuthProvider{ // as the service describes it
			ID: "files", AuthURL: "https://login.example.com/authorize", TokenURL: "https://login.example.com/token", ClientID: "millrace", Confirm: true,
		})
		if err != nil {
			return "", err
		}
		token, err := toolserver.StoredToken(ctx, "files")
		if errors.Is(err, toolserver.ErrUnauthorized) {
			token, err = toolserver.Authorize(ctx, "files", nil, toolserver.Secret{})
		}
		for err == nil {
			list, ok := files{}.List(ctx, in.Service, token)
			if ok {
				return list, nil
			}
			token, err = toolserver.Authorize(ctx, "files", nil, token) // returns an error if the service keeps refusing
		}
		return "", err
	})
	fmt.Println(server.Manifest().Tools[0].Name)
	// Output: list
}

// A files service accepts tokens.
type files struct{}

func (files) List(context.Context, string, toolserver.Secret) (list string, ok bool) {
	return "a.txt", true
}

// This example replaces the tools of a server at run time.
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
