package toolserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/millrace/millrace/agentproto/form"
	"github.com/millrace/millrace/agentproto/toolserver"
)

// invoke acts as a runtime: it calls a tool and prints what the tool posts, until the result or,
// if the result opens a subscription, its last event. It answers questions with their first choice.
func invoke(server *toolserver.Server, tool, arguments string) {
	done := make(chan struct{})
	runtime := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			Type, Text, Prompt, Response_URL string
			Subscription, Final              bool
		}
		json.NewDecoder(r.Body).Decode(&m)
		fmt.Println(m.Type+":", m.Text+m.Prompt)
		switch m.Type {
		case "user_choice":
			answer := httptest.NewRequest("POST", m.Response_URL, strings.NewReader(`{"id":"call-1","selected":0}`))
			answer.Header.Set("Content-Type", "application/json")
			server.ServeHTTP(httptest.NewRecorder(), answer)
		case "tool_result":
			if !m.Subscription {
				close(done)
			}
		case "subscription_event":
			if m.Final {
				close(done)
			}
		}
	}))
	defer runtime.Close()
	call := httptest.NewRequest("POST", "/invoke", strings.NewReader(fmt.Sprintf(
		`{"operation":%q,"arguments":%s,"id":"call-1","group_id":"thread-1","callback_url":%q}`, tool, arguments, runtime.URL)))
	call.Header.Set("Content-Type", "application/json")
	server.ServeHTTP(httptest.NewRecorder(), call)
	<-done
	server.Close(context.Background())
}

func Example() {
	server := toolserver.New(toolserver.Options{Name: "arithmetic", PublicURL: "http://localhost:8080"})
	toolserver.Add(server, "add", "Adds two numbers.", func(_ context.Context, in struct{ A, B int }) (int, error) {
		return in.A + in.B, nil
	})

	invoke(server, "add", `{"A":2,"B":3}`)
	// Output:
	// tool_result: 5
}

func ExampleAdd() {
	type Place struct {
		City string `json:"city" jsonschema:"the name of a city"`
		Days int    `json:"days,omitempty" jsonschema:"how many days ahead"`
	}
	server := toolserver.New(toolserver.Options{Name: "weather", PublicURL: "http://localhost:8080"})
	toolserver.Add(server, "forecast", "Forecasts the weather of a city.", func(_ context.Context, in Place) (string, error) {
		if in.City == "Atlantis" {
			return "", errors.New("there is no such city")
		}
		return "Rain.", nil
	})

	fmt.Println(server.Manifest().Tools[0].InputSchema)
	invoke(server, "forecast", `{"city":"Atlantis"}`)
	// Output:
	// {"type":"object","properties":{"city":{"type":"string","description":"the name of a city"},"days":{"type":"integer","description":"how many days ahead"}},"required":["city"],"additionalProperties":false}
	// tool_result: Error: there is no such city
}

func ExampleAddWithOptions() {
	server := toolserver.New(toolserver.Options{
		Name:      "office",
		PublicURL: "https://tools.example.com",
		Providers: []toolserver.OAuthProvider{{
			ID:           "intranet",
			AuthURL:      "https://id.example.com/authorize",
			TokenURL:     "https://id.example.com/token",
			ClientID:     "office-tools",
			ClientSecret: toolserver.NewSecret("from the configuration"),
			Scopes:       []string{"calendar.read"},
			Confirm:      true, // the user enters a code from the last page
		}},
	})
	toolserver.AddWithOptions(server, "calendar", "Lists today's appointments.",
		toolserver.ToolOptions{RequireOAuth: "intranet"},
		func(ctx context.Context, _ struct{}) (string, error) {
			resp, err := toolserver.Client(ctx).Get("https://calendar.example.com/today")
			if err != nil {
				return "", err
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			return string(text), err
		})

	fmt.Println(server.Manifest().Tools[0].Annotations.RequiresAuth)
	// Output:
	// intranet
}

func ExampleAsk_form() {
	guests := form.Form{Questions: []form.Question{{Name: "guest", Message: "Who comes?", Fields: []form.Field{
		{Name: "name", Kind: form.Text, Default: []byte(`"nobody"`)},
		{Name: "dish", Kind: form.Choice, Options: []form.Option{{Value: "soup"}, {Value: "bread"}}},
	}}}}
	server := toolserver.New(toolserver.Options{Name: "dinner", PublicURL: "http://localhost:8080"})
	toolserver.Add(server, "invite", "Invites a guest.", func(ctx context.Context, _ struct{}) (string, error) {
		answer, err := toolserver.Ask(ctx, toolserver.Question{Form: guests})
		if err != nil {
			return "", err
		}
		if answer.Values["guest"] == nil {
			return "", errors.New("the user has declined")
		}
		return string(answer.Values["guest"]), nil
	})

	invoke(server, "invite", `{}`) // the runtime has no forms, so the user sends the defaults
	// Output:
	// user_choice: Who comes?
	// tool_result: {"name":"nobody"}
}

func ExampleChoose() {
	rooms := []string{"with a view", "without"}
	server := toolserver.New(toolserver.Options{Name: "hotel", PublicURL: "http://localhost:8080"})
	toolserver.Add(server, "book", "Books a room.", func(ctx context.Context, _ struct{}) (string, error) {
		i, err := toolserver.Choose(ctx, "Which room?", rooms, 1)
		if err != nil {
			return "", err
		}
		return "Booked: " + rooms[i], nil
	})

	invoke(server, "book", `{}`)
	// Output:
	// user_choice: Which room?
	// tool_result: Booked: with a view
}

// In this example another system asks the question, and the name of the question is the name it has there.
func ExampleAsk() {
	server := toolserver.New(toolserver.Options{Name: "hotel", PublicURL: "http://localhost:8080"})
	toolserver.Add(server, "book", "Books a room.", func(ctx context.Context, _ struct{}) (string, error) {
		answer, err := toolserver.Ask(ctx, toolserver.Question{Name: "request 17", Prompt: "Which floor?", Choices: []string{"first", "second"}})
		if err != nil {
			return "", err
		}
		return fmt.Sprint("Booked: ", answer.Selected), nil
	})

	invoke(server, "book", `{}`)
	// Output:
	// user_choice: Which floor?
	// tool_result: Booked: 0
}

func ExampleAddSubscription() {
	news := []string{"The mill is built.", "The mill turns."} // a source that is read from a position
	type Position struct{ Next int }
	server := toolserver.New(toolserver.Options{Name: "news", PublicURL: "http://127.0.0.1:8000"}) // with a State, the subscription continues after a restart
	toolserver.AddSubscription(server, "follow", "Tells the news as they come.", toolserver.ToolOptions{},
		func(_ context.Context, _ struct{}) (string, *Position, error) {
			return "You will hear from me.", &Position{}, nil
		},
		func(ctx context.Context, sub *toolserver.Subscription[Position]) error {
			for at := sub.State(); at.Next < len(news); {
				event := toolserver.Event{Text: news[at.Next]}
				at.Next++
				event.Final = at.Next == len(news)
				if err := sub.Send(ctx, event, at); err != nil { // saves the event and the next position, or neither
					return err
				}
			}
			return nil
		})

	invoke(server, "follow", `{}`)
	// Output:
	// tool_result: You will hear from me.
	// subscription_event: The mill is built.
	// subscription_event: The mill turns.
}

func ExampleInvocation() {
	server := toolserver.New(toolserver.Options{Name: "echo", PublicURL: "http://localhost:8080"})
	toolserver.Add(server, "where", "Tells which thread it is called in.", func(ctx context.Context, _ struct{}) (string, error) {
		return toolserver.Invocation(ctx).GroupID, nil
	})

	invoke(server, "where", `{}`)
	// Output:
	// tool_result: thread-1
}

func ExampleSecret() {
	secret := toolserver.NewSecret("hunter2")
	fmt.Printf("%v %q %+v\n", secret, secret, struct{ Password toolserver.Secret }{secret})
	// Output:
	// [redacted] [redacted] {Password:[redacted]}
}

func ExampleServer_Close() {
	server := toolserver.New(toolserver.Options{Name: "short", PublicURL: "http://localhost:8080"})
	fmt.Println(server.Close(context.Background()))
	// Output:
	// <nil>
}

func ExampleNewVault() {
	folder, _ := os.MkdirTemp("", "example")
	defer os.RemoveAll(folder)

	keys, err := toolserver.LoadKeyset(filepath.Join(folder, "keys", "tokens.json")) // created if missing
	if err != nil {
		fmt.Println(err)
		return
	}
	vault, err := toolserver.NewVault(filepath.Join(folder, "vault"), keys)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer vault.Close()
	server := toolserver.New(toolserver.Options{Name: "office", PublicURL: "https://tools.example.com", Vault: vault})
	defer server.Close(context.Background())

	// From time to time, and when someone may have seen the keys:
	fmt.Println("new key:", keys.Rotate())
	changed, err := vault.Reseal()
	fmt.Println("tokens encrypted anew:", changed, err)
	fmt.Println("old keys destroyed:", keys.Retire())
	// Output:
	// new key: <nil>
	// tokens encrypted anew: 0 <nil>
	// old keys destroyed: <nil>
}
