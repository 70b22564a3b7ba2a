package host_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host"
)

// greeter is a minimal tool server: it describes itself, acknowledges each call, and posts the result later. It
// first asks a stranger to log in.
func greeter() *httptest.Server {
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch r.URL.Path {
		case "/.well-known/rap-toolset":
			fmt.Fprintf(w, `{"name":"greeter","endpoint":"%s/invoke","tools":[{"name":"greet","description":"Greets.",
				"inputSchema":{"type":"object","properties":{"whom":{"type":"string"}},"additionalProperties":false}}]}`, server.URL)
		case "/invoke":
			call, err := agentproto.DecodeInvocation(body, agentproto.Limits{})
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			whom := "world"
			if _, name, ok := strings.Cut(string(call.Arguments), `"whom":"`); ok {
				whom, _, _ = strings.Cut(name, `"`)
			}
			if whom == "stranger" {
				go post(call.CallbackURL, &agentproto.OAuth{GroupID: call.GroupID, ID: call.ID, AuthURL: "https://login.example/?scope=name"})
				return
			}
			text := "Hello, " + whom + "!"
			go post(call.CallbackURL, &agentproto.ToolResult{GroupID: call.GroupID, ID: call.ID, Text: &text})
		}
	}))
	return server
}

func post(url string, message any) {
	body, err := agentproto.Encode(message)
	if err != nil {
		log.Fatal(err)
	}
	resp, err := http.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		log.Fatal(err)
	}
	resp.Body.Close()
}

func Example() {
	server := greeter()
	defer server.Close()
	ctx := context.Background()

	rt, err := host.Start(ctx, host.Options{Toolsets: []string{server.URL}})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Stop(ctx)

	key, err := rt.Call(ctx, host.Request{
		GroupID: "conversation-1", Operation: "greet", Arguments: []byte(`{"whom":"Ada"}`),
	})
	if err != nil {
		log.Fatal(err)
	}
	resolution, err := rt.Await(ctx, key)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(resolution.Cause, "-", resolution.Result)
	// Output:
	// tool_result - Hello, Ada!
}

// A call that cannot be made is resolved like any other, with an error for the model.
func ExampleRuntime_Call_rejected() {
	server := greeter()
	defer server.Close()
	ctx := context.Background()

	rt, err := host.Start(ctx, host.Options{Toolsets: []string{server.URL}})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Stop(ctx)

	key, err := rt.Call(ctx, host.Request{
		GroupID: "conversation-1", Operation: "greet", Arguments: []byte(`{"whom":42}`),
	})
	if err != nil {
		log.Fatal(err)
	}
	resolution, err := rt.Await(ctx, key)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(resolution.Cause, "-", resolution.Result)
	// Output:
	// rejected - Error: the arguments of "greet" do not fit its schema: argument "/whom": got number, want string
}

// Results returns the results of all calls.
func ExampleRuntime_Results() {
	server := greeter()
	defer server.Close()
	ctx := context.Background()

	rt, err := host.Start(ctx, host.Options{Toolsets: []string{server.URL}})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Stop(ctx)

	results := rt.Results(ctx)
	for _, id := range []string{"a", "b", "c"} {
		if _, err := rt.Call(ctx, host.Request{GroupID: "conversation-1", ID: id, Operation: "greet"}); err != nil {
			log.Fatal(err)
		}
	}
	left := 3
	for r := range results {
		fmt.Println(r.Key, r.Result)
		if left--; left == 0 {
			break
		}
	}
	// Unordered output:
	// conversation-1/a Hello, world!
	// conversation-1/b Hello, world!
	// conversation-1/c Hello, world!
}

// window is a surface that prints what it is asked to show.
type window struct{ shown chan agentproto.CallKey }

func (w window) OAuth(_ context.Context, key agentproto.CallKey, o *agentproto.OAuth) {
	fmt.Println("please visit", o.AuthURL)
	w.shown <- key
}

func (w window) Choice(context.Context, agentproto.CallKey, *agentproto.UserChoice) {}
func (w window) Withdraw(agentproto.CallKey, string)                                { fmt.Println("never mind") }
func (w window) Progress(_ agentproto.CallKey, state agentproto.State)              { fmt.Println("call is", state) }
func (w window) View(agentproto.CallKey, *agentproto.ViewUpdate)                    {}

// A surface shows what a call needs from the user. Here the call is cancelled instead.
func ExampleSurface() {
	server := greeter()
	defer server.Close()
	ctx := context.Background()

	surface := window{make(chan agentproto.CallKey, 1)}
	rt, err := host.Start(ctx, host.Options{Toolsets: []string{server.URL}, Surface: surface})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := rt.Call(ctx, host.Request{
		GroupID: "conversation-1", Operation: "greet", Arguments: []byte(`{"whom":"stranger"}`),
	}); err != nil {
		log.Fatal(err)
	}
	if err := rt.Cancel(ctx, <-surface.shown); err != nil {
		log.Fatal(err)
	}
	if err := rt.Stop(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// please visit https://login.example/?scope=name
	// call is oauth pending
	// never mind
	// call is completed
}
