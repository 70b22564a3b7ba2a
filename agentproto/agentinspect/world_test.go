package agentinspect_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/agentinspect"
	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/disklog"
	"github.com/millrace/millrace/dataflow/inspect"
)

// hostile is a text that, shown unescaped, would become an element or reverse the text
// after it.
const hostile = "<script>alert(1)</script>\u202e</pre>"

// asked is hostile as a runtime shows it to users: without its invisible character.
const asked = "<script>alert(1)</script></pre>"

// A world is a runtime with a tool server, and the pages of both.
type world struct {
	t     *testing.T
	rt    *host.Runtime
	tool  *httptest.Server
	pages *httptest.Server
	opts  host.Options

	mu      sync.Mutex
	waiting map[string]*agentproto.Invocation // calls of "wait", by id
	answers []string                          // from users, as the tool received them
	said    chan string                       // what the model says next
}

// inWorlds runs a test with a runtime in memory and with one that stores its state.
func inWorlds(t *testing.T, test func(t *testing.T, w *world)) {
	for _, kept := range []bool{false, true} {
		t.Run(map[bool]string{false: "in memory", true: "kept"}[kept], func(t *testing.T) {
			w := &world{t: t, waiting: make(map[string]*agentproto.Invocation), said: make(chan string, 100)}
			w.tool = httptest.NewServer(w)
			t.Cleanup(w.tool.Close)
			sealer, err := host.SealerOf([32]byte{1})
			if err != nil {
				t.Fatal(err)
			}
			w.opts = host.Options{
				Toolsets: []string{w.tool.URL}, Sealer: sealer, Surface: silent{},
				Model: conversation.ModelFunc(func(ctx context.Context, r *conversation.Request) (*conversation.Reply, error) {
					last := r.Messages[len(r.Messages)-1]
					if tool, ok := strings.CutPrefix(last.Text, "call "); ok && last.Kind == conversation.User {
						return &conversation.Reply{Calls: []conversation.Call{{ID: "c" + fmt.Sprint(last.N), Name: tool}}}, nil
					}
					select {
					case text := <-w.said:
						return &conversation.Reply{Text: text}, nil
					case <-ctx.Done():
						return nil, context.Cause(ctx)
					}
				}),
			}
			if kept {
				w.opts.State = &durable.Options{Log: disklog.Dir(t.TempDir())}
			}
			w.start()
			t.Cleanup(w.stop)
			test(t, w)
		})
	}
}

func (w *world) start() {
	rt, err := host.Start(w.t.Context(), w.opts)
	if err != nil {
		w.t.Fatal(err)
	}
	w.rt = rt
	w.pages = w.serve(inspect.Options{Name: "agents", Values: true}, agentinspect.Options{Answers: true})
}

func (w *world) stop() {
	w.pages.CloseClientConnections()
	w.pages.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	w.rt.Stop(ctx)
}

// serve serves the pages of the runtime with the given options.
func (w *world) serve(o inspect.Options, a agentinspect.Options) *httptest.Server {
	o.Sections = []inspect.Section{agentinspect.Section(w.rt, a)}
	return httptest.NewServer(http.StripPrefix("/x", inspect.Handler(w.rt.Flow(), o)))
}

// silent is a surface that shows nothing: the pages show the prompts.
type silent struct{}

func (silent) OAuth(context.Context, agentproto.CallKey, *agentproto.OAuth)       {}
func (silent) Choice(context.Context, agentproto.CallKey, *agentproto.UserChoice) {}
func (silent) Withdraw(agentproto.CallKey, string)                                {}
func (silent) Progress(agentproto.CallKey, agentproto.State)                      {}
func (silent) View(agentproto.CallKey, *agentproto.ViewUpdate)                    {}

// ServeHTTP is the tool server.
func (w *world) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	data, _ := io.ReadAll(r.Body)
	switch r.URL.Path {
	case "/.well-known/rap-toolset":
		schema := `"inputSchema":{"type":"object"}`
		fmt.Fprintf(rw, `{"name":"tools","endpoint":"%s/invoke","tools":[{"name":"greet","description":%s,%s},{"name":"ask","description":"",%s},{"name":"login","description":"",%s},{"name":"wait","description":"",%s},{"name":"fill","description":"",%s}]}`,
			w.tool.URL, quoted(hostile), schema, schema, schema, schema, schema)
	case "/invoke":
		call, err := agentproto.DecodeInvocation(data, agentproto.Limits{})
		if err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
		switch call.Operation {
		case "greet":
			go w.result(call, hostile)
		case "ask":
			go w.post(call.CallbackURL, &agentproto.UserChoice{
				GroupID: call.GroupID, ID: call.ID, Prompt: "Which one? " + hostile, Choices: []string{"red", "blue " + hostile}, ResponseURL: w.tool.URL + "/choice?id=" + call.ID,
			})
			w.wait(call)
		case "fill":
			go w.post(call.CallbackURL, &agentproto.UserChoice{
				GroupID: call.GroupID, ID: call.ID, Prompt: "Who comes?", Choices: []string{"Decline"}, ResponseURL: w.tool.URL + "/choice?id=" + call.ID,
				Form: jsontext.Value(guests),
			})
			w.wait(call)
		case "login":
			go w.post(call.CallbackURL, &agentproto.OAuth{GroupID: call.GroupID, ID: call.ID, AuthURL: "https://login.example/?scope=a"})
			w.wait(call)
		default:
			w.wait(call)
		}
	case "/choice":
		w.mu.Lock()
		w.answers = append(w.answers, r.URL.Query().Get("id")+" "+string(data))
		call := w.waiting[r.URL.Query().Get("id")]
		w.mu.Unlock()
		go w.result(call, "chosen")
	}
}

func quoted(s string) string {
	text, _ := json.Marshal(s)
	return string(text)
}

func (w *world) wait(call *agentproto.Invocation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting[call.ID] = call
}

func (w *world) result(call *agentproto.Invocation, text string) {
	w.post(call.CallbackURL, &agentproto.ToolResult{GroupID: call.GroupID, ID: call.ID, Text: &text})
}

func (w *world) post(url string, message any) {
	body, err := agentproto.Encode(message)
	if err != nil {
		w.t.Error(err)
		return
	}
	resp, err := http.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		w.t.Log(err) // the runtime has stopped
		return
	}
	resp.Body.Close()
}

// call makes a call.
func (w *world) call(thread, id, operation string) agentproto.CallKey {
	w.t.Helper()
	key, err := w.rt.Call(w.t.Context(), host.Request{GroupID: thread, ID: id, Operation: operation, UserID: "u1"})
	if err != nil {
		w.t.Fatal(err)
	}
	return key
}

// get asks for a path below the pages and returns status and body.
func (w *world) get(path string) (int, string) {
	w.t.Helper()
	return w.getFrom(w.pages, path)
}

func (w *world) getFrom(s *httptest.Server, path string) (int, string) {
	w.t.Helper()
	resp, err := http.Get(s.URL + "/x/" + path)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// json requests a path until the decoded answer satisfies is.
func (w *world) json(path string, into any, is func() bool) {
	w.t.Helper()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	late := time.After(20 * time.Second)
	for {
		status, body := w.get(path)
		err := json.Unmarshal([]byte(body), into)
		if err == nil && status == http.StatusOK && is() {
			return
		}
		select {
		case <-again.C:
		case <-late:
			w.t.Fatalf("%s is %d: %s", path, status, body)
		}
	}
}
