package host

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/agentproto/host/internal/discovery"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/internal/overlap"
)

// actEnv makes the test binary act as a tool server at the address in its value.
const actEnv = "HOST_TEST_LISTEN"

func TestMain(m *testing.M) {
	if at := os.Getenv(actEnv); at != "" {
		serveTest(at)
		return
	}
	overlap.Tests()
	os.Exit(m.Run())
}

// serveTest serves tools and takes part in migrations. A POST to /die ends the process.
func serveTest(at string) {
	l, err := net.Listen("tcp", at)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case discovery.Path:
			fmt.Fprintf(w, `{"name":"set","endpoint":"http://%s/invoke","needsMigration":true,"tools":[{"name":"echo","description":"d","inputSchema":{}}]}`, at)
		case "/die":
			os.Exit(3)
		}
	}))
}

// self is the command that runs the test binary as a tool server.
func self() Command {
	return Command{Args: os.Args[:1], Env: append(os.Environ(), actEnv+"={host}:{port}")}
}

func TestCommandOptions(t *testing.T) {
	kept := &durable.Options{}
	tests := []struct {
		command Command
		state   *durable.Options
		want    string
	}{
		{Command{}, nil, "has no program"},
		{Command{Args: []string{"tool"}}, nil, "neither {port} nor {url}"},
		{Command{Args: []string{"tool", "{port}"}}, kept, "needs a URL that stays"},
		{Command{Args: []string{"tool"}, URL: "http://user:secret@127.0.0.1:1"}, nil, "its URL is not one"},
		{Command{Args: []string{"tool"}, URL: "127.0.0.1:1"}, nil, "its URL is not one"},
	}
	for _, test := range tests {
		_, err := Options{Commands: []Command{test.command}, State: test.state}.withCommands()
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: %v, want %q", test.command, err, test.want)
		}
	}
	given := Options{Toolsets: []string{"http://a.test"}, Commands: []Command{
		{URL: "https://b.test/base/", Args: []string{"tool", "--at", "{host}:{port}", "{url}/x"}, Env: []string{"P={port}"}, Dir: "/"},
		{Args: []string{"{port}"}}, {Args: []string{"{port}"}},
	}}
	o, err := given.withCommands()
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%q %q", o.Commands[0].Args, o.Commands[0].Env); got != `["tool" "--at" "b.test:443" "https://b.test/base/x"] ["P=443"]` {
		t.Errorf("the command is %s", got)
	}
	if len(o.Toolsets) != 4 || o.Toolsets[1] != "https://b.test/base" || o.Toolsets[2] == o.Toolsets[3] || o.Toolsets[2] != "http://127.0.0.1:"+o.Commands[1].Args[0] {
		t.Errorf("the toolsets are %q", o.Toolsets)
	}
	if len(given.Toolsets) != 1 || given.Commands[1].URL != "" || given.Commands[1].Args[0] != "{port}" {
		t.Error("the caller's options are changed")
	}
}

// TestCommandOfFailedStart checks that a runtime whose start fails leaves no tool server running.
func TestCommandOfFailedStart(t *testing.T) {
	good := self()
	good.URL = "http://127.0.0.1:" + freePort(t)
	_, err := Start(t.Context(), Options{Commands: []Command{good, {Args: []string{"/nowhere/program", "{port}"}}}})
	if err == nil || !strings.Contains(err.Error(), "/nowhere/program cannot be started") {
		t.Fatalf("Start: %v", err)
	}
	if conn, err := net.Dial("tcp", strings.TrimPrefix(good.URL, "http://")); err == nil {
		conn.Close()
		t.Error("a tool server is left")
	}
}

func freePort(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// TestCommandForSession checks that a host to which a session is offered first starts its tool
// servers, even one that has ended and is due to start later.
func TestCommandForSession(t *testing.T) {
	t.Parallel()
	there := self()
	there.URL = "http://127.0.0.1:" + freePort(t)
	here := self()
	runtime := func(c Command) *Runtime {
		rt, err := Start(t.Context(), Options{
			Commands: []Command{c}, MigrationKey: sharedKey, Model: conversation.Script{{Text: "hello"}},
			Surface: &user{}, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { rt.Stop(t.Context()) })
		if p := rt.Problems(); len(p) > 0 {
			t.Fatal(p)
		}
		return rt
	}
	first, second := runtime(here), runtime(there)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	th, err := first.OpenSession(ctx, SessionRequest{ID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	if err := th.Say(ctx, "hi"); err != nil {
		t.Fatal(err)
	}
	process := second.peers.All[0].Command
	for n := range 3 { // afterwards the pause is longer than the session waits
		if _, err := http.Post(there.URL+"/die", "", nil); err == nil {
			t.Fatal("the tool server answers")
		}
		for again := time.NewTicker(time.Millisecond); process.Err() == nil; {
			<-again.C
		}
		if n < 2 {
			if err := process.Up(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := first.Migrate(ctx, "s", second.PublicURL()); err != nil {
		t.Errorf("Migrate: %v", err)
	}
	if process.Err() != nil {
		t.Errorf("the tool server is not up: %v", process.Err())
	}
}

// TestCommandProblem checks that the problem of a toolset that is down includes the output and
// the exit status of its command.
func TestCommandProblem(t *testing.T) {
	rt, err := Start(t.Context(), Options{
		Commands: []Command{{Args: []string{"sh", "-c", "echo it is port {port} >&2; exit 3"}, Output: io.Discard}},
		Surface:  &user{}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Stop(t.Context())
	if p := rt.Problems(); len(p) != 1 || !strings.Contains(p[0].Error(), "its command sh -c echo it is port") || !strings.Contains(p[0].Error(), "exit status 3") {
		t.Errorf("the problems are %v", p)
	}
}
