package jobs

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"

	"github.com/millrace/millrace/agentproto"
	protocol "github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/bench/internal/ratio"
	"github.com/millrace/millrace/dataflow/recordings"
)

const (
	httpCalls   = 8_000
	httpCallers = 32
)

// HTTP makes tool calls over loopback, 32 at a time, with everything in one process.
// A call is two requests: the runtime posts the invocation, and the tool server posts
// the result. By hand, a handler decodes the invocation and answers, for twice as
// many requests. An event is a request. Both keep all processors busy, so processor
// time limits the requests per second.
func HTTP() []Job {
	return []Job{{
		Name: "HTTP", Params: fmt.Sprintf("callers=%d", httpCallers), CPU: true,
		Targets: []Target{{AtMost: 1 / .6}},
		Impls: []ratio.Impl{
			{Name: "hand", New: bareHandler},
			{Name: "millrace", New: func() ratio.Run { return protocolRuntime(false) }},
		},
	}}
}

func newClient() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2 * httpCallers}}
}

// post posts a message and checks that it is accepted.
func post(client *http.Client, url string, message []byte) {
	resp, err := client.Post(url, "application/json", bytes.NewReader(message))
	must(err)
	_, err = io.Copy(io.Discard, resp.Body)
	must(err)
	must(resp.Body.Close())
	check("status", resp.StatusCode, http.StatusOK)
}

// callers distributes calls over goroutines.
func callers(call func(i int)) {
	var wg sync.WaitGroup
	for c := range httpCallers {
		wg.Go(func() {
			for i := c; i < httpCalls; i += httpCallers {
				call(i)
			}
		})
	}
	wg.Wait()
}

func bareHandler() ratio.Run {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		must(err)
		_, err = agentproto.DecodeInvocation(body, agentproto.Limits{})
		must(err)
		w.WriteHeader(http.StatusOK)
	}))
	client := newClient()
	return ratio.Run{
		Do: func() int {
			callers(func(i int) {
				for range 2 {
					message, err := agentproto.Encode(&agentproto.Invocation{
						Operation: "echo", Arguments: []byte(`{"text":"hello"}`), ID: "call-" + strconv.Itoa(i), GroupID: "thread-1",
						CallbackURL: "http://127.0.0.1:1/callback/0123456789abcdef0123456789abcdef",
					})
					must(err)
					post(client, server.URL, message)
				}
			})
			return 2 * httpCalls
		},
		Close: func() {
			client.CloseIdleConnections()
			server.Close()
		},
	}
}

// echoServer is a tool server that answers each call with a text.
func echoServer() (server *httptest.Server, stop func()) {
	client := newClient()
	slots := make(chan struct{}, 2*httpCallers)
	text := "hello"
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		must(err)
		if r.Method == http.MethodGet || r.URL.Path != "/invoke" {
			fmt.Fprintf(w, `{"name":"echo","endpoint":"http://%s/invoke","tools":[{"name":"echo","description":"Says it again.","inputSchema":{"type":"object"}}]}`, r.Host)
			return
		}
		call, err := agentproto.DecodeInvocation(body, agentproto.Limits{})
		must(err)
		go func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			message, err := agentproto.Encode(&agentproto.ToolResult{ID: call.ID, GroupID: call.GroupID, Text: &text})
			must(err)
			post(client, call.CallbackURL, message)
		}()
	}))
	return server, func() {
		for range cap(slots) {
			slots <- struct{}{}
		}
		client.CloseIdleConnections()
		server.Close()
	}
}

func protocolRuntime(record bool) ratio.Run {
	server, stopServer := echoServer()
	opts := protocol.Options{Toolsets: []string{server.URL}, Surface: silent{}, Logger: slog.New(slog.DiscardHandler)}
	if record {
		opts.Recorder = recordings.NewRecorder(io.Discard)
	}
	rt, err := protocol.Start(background, opts)
	must(err)
	return ratio.Run{
		Do: func() int {
			callers(func(i int) {
				key, err := rt.Call(background, protocol.Request{
					GroupID: "thread-1", ID: "call-" + strconv.Itoa(i), Operation: "echo", Arguments: []byte(`{"text":"hello"}`),
				})
				must(err)
				r, err := rt.Await(background, key)
				must(err)
				check("result", r.Result.String(), "hello")
			})
			return 2 * httpCalls
		},
		Close: func() {
			must(rt.Stop(background))
			stopServer()
			if record {
				must(opts.Recorder.Close())
			}
		},
	}
}

// silent is a surface that shows nothing.
type silent struct{}

func (silent) OAuth(context.Context, agentproto.CallKey, *agentproto.OAuth)       {}
func (silent) Choice(context.Context, agentproto.CallKey, *agentproto.UserChoice) {}
func (silent) Withdraw(agentproto.CallKey, string)                                {}
func (silent) Progress(agentproto.CallKey, agentproto.State)                      {}
func (silent) View(agentproto.CallKey, *agentproto.ViewUpdate)                    {}
