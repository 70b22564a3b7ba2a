package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/toolserver"
)

// stepping serves a tool that reports each progress it receives, and returns when one has no total.
func stepping(t *testing.T, steps <-chan agentproto.Progress) string {
	var handler http.Handler
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	t.Cleanup(web.Close)
	s := toolserver.New(toolserver.Options{Name: "stepping", PublicURL: web.URL})
	handler = s
	toolserver.Add(s, "steps", "Does one step after the other.", func(ctx context.Context, _ struct{}) (string, error) {
		for {
			select {
			case p := <-steps:
				if p.Total == 0 {
					return "all done", nil
				}
				if err := toolserver.View(ctx, agentproto.ProgressView, p); err != nil {
					return "", err
				}
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		}
	})
	return web.URL
}

// bearing adds the token of a runtime to each request.
type bearing struct{ token string }

func (b bearing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return http.DefaultTransport.RoundTrip(r)
}

// TestMCPProgress checks that a client receives the progress of its call in all revisions and over both transports. Over the
// front it still does after the runtime was killed, and no value arrives twice.
func TestMCPProgress(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	steps := make(chan agentproto.Progress)
	s := serveRuntime(t, t.TempDir(), []string{stepping(t, steps)})
	s.request(ctx, "GET", "/stats", "", http.StatusOK)
	token, err := findToken("", s.state)
	if err != nil {
		t.Fatal(err)
	}
	over := map[string]func() mcp.Transport{
		"http": func() mcp.Transport {
			return &mcp.StreamableClientTransport{Endpoint: s.api + "/mcp", HTTPClient: &http.Client{Transport: bearing{token}}, DisableStandaloneSSE: true}
		},
		"stdio": func() mcp.Transport {
			cmd := millrace(t, "mcp", "--api", s.api, "--token-file", filepath.Join(s.state, tokenName))
			cmd.Stderr = io.Discard
			return &mcp.CommandTransport{Command: cmd}
		},
	}
	for _, version := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
		for name, transport := range over {
			heard := make(chan *mcp.ProgressNotificationParams, 100)
			client := mcp.NewClient(&mcp.Implementation{Name: "t", Version: "0"}, &mcp.ClientOptions{
				ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { heard <- r.Params },
			})
			session, err := client.Connect(ctx, transport(), &mcp.ClientSessionOptions{ProtocolVersion: version})
			if err != nil {
				t.Fatalf("%s, %s: %v", version, name, err)
			}
			if got := session.InitializeResult().ProtocolVersion; got != version {
				t.Fatalf("%s, %s: the revision is %s", version, name, got)
			}
			results := make(chan *mcp.CallToolResult, 1)
			go func() {
				defer close(results)
				p := &mcp.CallToolParams{Name: "steps"}
				p.SetProgressToken("token")
				res, err := session.CallTool(ctx, p)
				if err != nil {
					t.Errorf("%s, %s: %v", version, name, err)
					return
				}
				results <- res
			}()
			last := -1.0
			for n := range 4 {
				if n == 2 && name == "stdio" {
					s.kill()
					s.start()
				}
				select {
				case steps <- agentproto.Progress{Progress: float64(n + 1), Total: 4, Message: "step"}:
				case res := <-results:
					t.Fatalf("%s, %s: the call has ended with %+v before step %d", version, name, res, n)
				}
				for found := false; !found; {
					select {
					case p := <-heard:
						if p.ProgressToken != "token" || p.Progress <= last {
							t.Errorf("%s, %s: heard %+v after %v", version, name, p, last)
						}
						last = p.Progress
						found = p.Progress == float64(n+1) && p.Total == 4 && p.Message == "step"
					case res := <-results:
						t.Fatalf("%s, %s: the call has ended with %+v before step %d was heard of", version, name, res, n)
					}
				}
			}
			steps <- agentproto.Progress{}
			if res := <-results; res == nil || res.IsError || !strings.Contains(res.Content[0].(*mcp.TextContent).Text, "all done") {
				t.Errorf("%s, %s: the result is %+v", version, name, res)
			}
			session.Close()
		}
	}
}
