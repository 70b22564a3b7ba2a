package host

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto/host/internal/discovery"
)

// problems returns the runtime's problems, one per line.
func (w *world) problems() string {
	var lines []string
	for _, p := range w.rt.Problems() {
		lines = append(lines, p.Error())
	}
	return strings.Join(lines, "\n")
}

// names returns the names of the tools on offer.
func (w *world) names() string {
	var names []string
	for _, t := range w.rt.Tools() {
		names = append(names, t.Name)
	}
	return strings.Join(names, " ")
}

func TestD01Discovery(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.tool("a.test", "one", "two"), w.tool("b.test", "three")
		rt := w.start(a.base+"/", b.base)
		if got := w.names(); got != "one two three" || w.problems() != "" {
			t.Errorf("tools %q, problems %q", got, w.problems())
		}
		if got := rt.Tools()[2]; got.Server != "http://b.test" || got.Toolset != "set" || got.Description != "d" {
			t.Errorf("tool = %+v", got.Tool)
		}
	})
}

// TestManifestsRefused checks that an invalid manifest offers no tools.
func TestManifestsRefused(t *testing.T) {
	tool := func(schema string) string {
		return fmt.Sprintf(`{"name":"s","endpoint":"http://bad.test/i","tools":[{"name":"ok","description":"d","inputSchema":{}},{"name":"x","description":"d"%s}]}`, schema)
	}
	tests := []struct{ id, manifest, want string }{
		{"D06 no schema", tool(""), "inputSchema"},
		{"D06 schema is a string", tool(`,"inputSchema":"{}"`), "inputSchema"},
		{"D07 no tools", `{"name":"s","endpoint":"http://bad.test/i","tools":[]}`, "/tools"},
		{"D07 empty name", `{"name":"","endpoint":"http://bad.test/i","tools":[{"name":"x","description":"d","inputSchema":{}}]}`, "/name"},
		{"D07 long name", `{"name":"` + strings.Repeat("n", 129) + `","endpoint":"http://bad.test/i","tools":[{"name":"x","description":"d","inputSchema":{}}]}`, "/name"},
		{"D07 relative endpoint", `{"name":"s","endpoint":"/i","tools":[{"name":"x","description":"d","inputSchema":{}}]}`, "/endpoint"},
		{"D11 external reference", tool(`,"inputSchema":{"$ref":"file:///etc/passwd"}`), "inputSchema"},
		{"D11 endless reference", tool(`,"inputSchema":{"$ref":"#"}`), "inputSchema"},
		{"D13 other host", `{"name":"s","endpoint":"http://evil.test/i","tools":[{"name":"x","description":"d","inputSchema":{}}]}`, "another origin"},
		{"D13 other port", `{"name":"s","endpoint":"http://bad.test:81/i","tools":[{"name":"x","description":"d","inputSchema":{}}]}`, "another origin"},
		{"D13 other scheme", `{"name":"s","endpoint":"https://bad.test/i","tools":[{"name":"x","description":"d","inputSchema":{}}]}`, "another origin"},
		{"not JSON", `<html>`, "invalid manifest"},
	}
	for _, tt := range tests {
		t.Run(tt.id, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				bad, good := w.tool("bad.test"), w.tool("good.test")
				bad.manifest = tt.manifest
				w.start(bad.base, good.base)
				if got := w.names(); got != "echo" {
					t.Errorf("tools %q, want echo", got)
				}
				if got := w.problems(); !strings.HasPrefix(got, "toolset http://bad.test: ") || !strings.Contains(got, tt.want) || strings.Contains(got, "\n") {
					t.Errorf("problems %q, want one with %q", got, tt.want)
				}
			})
		})
	}
}

func TestD13AllowedOrigin(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		front, back := w.tool("front.test"), w.tool("back.test")
		front.manifest = back.manifest
		w.opts.AllowOrigins = []string{"http://BACK.test:80"}
		w.start(front.base)
		w.call("g", "1")
		if n := len(back.invocations()); n != 1 {
			t.Errorf("%d invocations at the allowed origin, want 1; problems %q", n, w.problems())
		}
	})
}

// TestD13OriginOfOneToolset checks that an origin allowed for one tool server is not
// allowed for another.
func TestD13OriginOfOneToolset(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		front, other, back := w.tool("front.test"), w.tool("other.test"), w.tool("back.test")
		front.manifest, other.manifest = back.manifest, back.manifest
		w.opts.ToolsetOrigins = map[string][]string{front.base + "/": {"http://BACK.test:80"}}
		w.start(front.base, other.base)
		if got := w.problems(); strings.Count(got, "another origin") != 1 || !strings.Contains(got, "other.test") {
			t.Errorf("problems %q", got)
		}
		w.call("g", "1")
		if n := len(back.invocations()); n != 1 {
			t.Errorf("%d invocations at the allowed origin, want 1", n)
		}
	})
}

func TestD05SharedName(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.tool("a.test", "one", "shared"), w.tool("b.test", "shared", "two")
		w.start(a.base, b.base)
		if got := w.names(); got != "one two" {
			t.Errorf("tools %q, want one two", got)
		}
		if got := w.problems(); strings.Count(got, `tool "shared": another toolset`) != 2 {
			t.Errorf("problems:\n%s", got)
		}
	})
}

// TestManifestNotFetched checks that servers that answer wrongly or slowly are given up
// within the limits (D04, D10).
func TestManifestNotFetched(t *testing.T) {
	drip := func(rw http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			io.WriteString(rw, " ")
			rw.(http.Flusher).Flush()
			select {
			case <-time.After(time.Second):
			case <-r.Context().Done():
			}
		}
	}
	tests := []struct {
		id      string
		handler http.HandlerFunc
		want    string
		within  time.Duration
	}{
		{"D04 500", func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(500) }, "status 500", 0},
		{"D10 drip", drip, "not read", 10 * time.Second},
		{"D10 silence", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "manifest not fetched", 10 * time.Second},
		{"D10 5 MB", func(rw http.ResponseWriter, _ *http.Request) { io.Copy(rw, io.LimitReader(blanks{}, 5<<20)) }, "larger than", 0},
		{"D10 redirect", func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, "http://other.test"+discovery.Path, http.StatusFound)
		}, "status 302", 0},
		{"D10 gzip bomb", func(rw http.ResponseWriter, _ *http.Request) {
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			io.Copy(z, io.LimitReader(blanks{}, 16<<20))
			z.Close()
			rw.Header().Set("Content-Encoding", "gzip")
			rw.Write(b.Bytes())
		}, "larger than", 0},
	}
	for _, tt := range tests {
		t.Run(tt.id, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				other := w.tool("other.test")
				w.host("bad.test", tt.handler)
				start := time.Now()
				w.start("http://bad.test")
				if d := time.Since(start); d > tt.within {
					t.Errorf("took %v, want at most %v", d, tt.within)
				}
				if got := w.problems(); !strings.Contains(got, tt.want) || w.names() != "" {
					t.Errorf("problems %q, want %q; tools %q", got, tt.want, w.names())
				}
				if n := len(other.noticed()); n != 0 {
					t.Error("a redirect was followed")
				}
			})
		})
	}
}

type blanks struct{}

func (blanks) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func TestOptionsRefused(t *testing.T) {
	for _, opts := range []Options{
		{Toolsets: []string{"tool.test"}},
		{Toolsets: []string{"file:///etc"}},
		{Toolsets: []string{"http://"}},
		{Toolsets: []string{"http://u:p@tool.test"}},
		{Toolsets: []string{"http://tool.test?x=1"}},
		{Toolsets: []string{"http://tool.test", "http://tool.test/"}},
		{AllowOrigins: []string{"tool.test"}},
		{PublicURL: "runtime.test"},
		{PublicURL: "http://runtime.test?x"},
		{External: true},
		{ListenAddr: "256.256.256.256:0"},
	} {
		if rt, err := Start(t.Context(), opts); err == nil {
			t.Errorf("Start(%+v) succeeded", opts)
			rt.Stop(t.Context())
		} else if strings.Contains(err.Error(), "u:p") {
			t.Errorf("error shows a password: %v", err)
		}
	}
}
