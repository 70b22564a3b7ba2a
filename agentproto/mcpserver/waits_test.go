package mcpserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/agentproto/mcpserver"
)

// thinks is how long a user takes to answer. impatience is how long a client waits without hearing of its call.
const thinks, impatience = 10 * time.Minute, time.Minute

// TestProgressWhileTheUserThinks has an older client that gives up a call after a minute of silence. Its user takes ten minutes
// to answer. The call returns its result if the client asked for progress. The test fails if the server is silent while it waits
// for the user (MT33).
func TestProgressWhileTheUserThinks(t *testing.T) {
	for _, version := range []string{"2025-06-18", "2025-11-25"} {
		for _, token := range []any{"p", nil} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, mcpserver.Options{})
				w.calls.onCall = func(d *host.Description) { ask(d, 1) }
				in, toServer := io.Pipe()
				out, toClient := io.Pipe()
				ended := make(chan error, 1)
				go func() { ended <- w.server.ServeStdio(t.Context(), mcpserver.Owner{Name: "alice"}, in, toClient) }()
				ctx, giveUp := context.WithCancel(t.Context())
				defer giveUp()
				patience := time.AfterFunc(impatience, giveUp)
				var mu sync.Mutex
				var told []string
				client := mcp.NewClient(&mcp.Implementation{Name: "t", Version: "0"}, &mcp.ClientOptions{
					Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}}},
					ElicitationHandler: func(ctx context.Context, _ *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
						select {
						case <-time.After(thinks):
						case <-ctx.Done():
						}
						return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"choice": "1"}}, nil
					},
					ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
						patience.Reset(impatience)
						mu.Lock()
						defer mu.Unlock()
						told = append(told, tellingOf(r.Params))
					},
				})
				session, err := client.Connect(t.Context(), &mcp.IOTransport{Reader: out, Writer: toServer}, &mcp.ClientSessionOptions{ProtocolVersion: version})
				if err != nil {
					t.Fatal(err)
				}
				p := &mcp.CallToolParams{Name: "one"}
				if token != nil {
					p.SetProgressToken(token)
				}
				res, err := session.CallTool(ctx, p)
				synctest.Wait()
				mu.Lock()
				switch {
				case token == nil: // the revision has no way to keep such a client waiting on a pair of streams
					if err == nil || len(told) > 0 {
						t.Errorf("%s: without a token: %v, told %q", version, err, told)
					}
				case err != nil || len(w.calls.answers) != 1 || w.calls.answers[0] != 1 || res.Content[0].(*mcp.TextContent).Text != "done":
					t.Errorf("%s: %+v, %v, answers %v, told %d times", version, res, err, w.calls.answers, len(told))
				case len(told) < 39 || len(told) > 40 || told[0] != "0/0 waits for the user's answer" || told[1] != "0.001/0 waits for the user's answer":
					t.Errorf("%s: told %d times: %q", version, len(told), told)
				}
				mu.Unlock()
				session.Close()
				<-ended
			})
		}
	}
}

// A flowing answer can be read while it is being written.
type flowing struct {
	*httptest.ResponseRecorder
	mu sync.Mutex
}

func (f *flowing) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ResponseRecorder.Write(b)
}

func (f *flowing) text() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.Body.String()
}

// TestCommentsWhileTheUserThinks checks the HTTP stream of a call that waits for its user: a comment every 20 s for a client
// without a token, or a notification every 15 s for a client with one. There are none before the user is asked, nor in the
// answers to other posts. The test fails if a proxy could take the stream for dead (MT34).
func TestCommentsWhileTheUserThinks(t *testing.T) {
	for _, version := range []string{"2025-06-18", "2025-11-25"} {
		for token, want := range map[string]string{"": "29 comments, 0 notifications", `"_meta":{"progressToken":"p"},`: "0 comments, 39 notifications"} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, mcpserver.Options{})
				begun := w.post(t.Context(), http.MethodPost, "",
					`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+version+`","capabilities":{"elicitation":{}},"clientInfo":{"name":"t","version":"0"}}}`)
				session := begun.Header().Get("Mcp-Session-Id")
				w.post(t.Context(), http.MethodPost, session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
				answer := &flowing{ResponseRecorder: httptest.NewRecorder()}
				over := make(chan bool)
				go func() {
					defer close(over)
					w.postTo(t.Context(), answer, http.MethodPost, session, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{`+token+`"name":"one","arguments":{}}}`)
				}()
				time.Sleep(time.Minute)
				if token == "" && answer.text() != "" {
					t.Errorf("before anything was asked: %q", answer.text())
				}
				w.calls.with(func(d *host.Description) { ask(d, 1) })
				time.Sleep(thinks - time.Second)
				asked := answer.text()
				id := regexp.MustCompile(`"id":([^,]+),"method":"elicitation/create"`).FindStringSubmatch(asked)
				if id == nil {
					id = regexp.MustCompile(`"method":"elicitation/create".*"id":([^,}]+)[,}]`).FindStringSubmatch(asked)
				}
				if id == nil {
					t.Fatalf("nothing is asked: %q", asked)
				}
				_, since, _ := strings.Cut(asked, "elicitation/create")
				if got := fmt.Sprintf("%d comments, %d notifications", strings.Count(since, ": waits\n\n"), strings.Count(since, "notifications/progress")); got != want {
					t.Errorf("%s: %s, want %s:\n%s", version, got, want, since)
				}
				taken := w.post(t.Context(), http.MethodPost, session, `{"jsonrpc":"2.0","id":`+id[1]+`,"result":{"action":"accept","content":{"choice":"1"}}}`)
				if taken.Code != http.StatusAccepted || taken.Body.Len() > 0 {
					t.Errorf("the answer is answered %d %q", taken.Code, taken.Body)
				}
				<-over
				length := len(answer.text())
				time.Sleep(time.Minute)
				if text := answer.text(); !strings.Contains(text, `"done"`) || len(text) != length {
					t.Errorf("%s: the end is %q", version, text[max(0, len(text)-300):])
				}
				for line := range bytes.Lines(answer.Body.Bytes()) { // every event is valid JSON
					if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok && !json.Valid(data) {
						t.Errorf("broken: %q", line)
					}
				}
				w.post(t.Context(), http.MethodDelete, session, "")
			})
		}
	}
}
