package host

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/agentproto"
)

// asked records the runtime's requests to each host and the secrets they contain.
type asked struct {
	mu   sync.Mutex
	seen []string
}

func (a *asked) at(host string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		a.seen = append(a.seen, host+r.URL.Path+" "+r.Header.Get("Authorization")+r.Header.Get("X-Key"))
		a.mu.Unlock()
		next.ServeHTTP(rw, r)
	})
}

func (a *asked) said() string {
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	return strings.Join(a.seen, "\n") + "\n"
}

// TestHeaders checks that a tool server's headers are sent with every request to it. They
// are sent to nobody else, not to the target of a redirect, and never logged.
func TestHeaders(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var a asked
		tool := &toolServer{w: w, base: "http://a.test", manifest: `{"name":"a","endpoint":"http://files.test/invoke","tools":[{"name":"echo","description":"d","inputSchema":{}}]}`}
		other := &toolServer{w: w, base: "http://b.test", manifest: `{"name":"b","endpoint":"http://b.test/invoke","tools":[{"name":"other","description":"d","inputSchema":{}}]}`}
		thief := &toolServer{w: w, base: "http://thief.test"}
		w.host("a.test", a.at("a", tool))
		w.host("files.test", a.at("files", tool))
		w.host("b.test", a.at("b", other))
		w.host("thief.test", a.at("thief", thief))
		w.opts.AllowOrigins = []string{"http://files.test", "http://b.test"}
		w.opts.AskStatus = true
		w.opts.Headers = map[string]http.Header{
			"http://a.test/": {"Authorization": {"Bearer canary-a"}}, "http://b.test": {"X-Key": {"canary-b"}},
		}
		rt := w.start(tool.base, other.base)
		key := w.call("g", "1")
		w.post(tool.callback(), choice(`["x","y"]`, 0, "http://files.test/answer"))
		w.user.saw()
		if err := rt.Answer(t.Context(), key, "http://files.test/answer", 1); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.pass(rt.opts.Timeouts.Status)
		rt.Cancel(t.Context(), key)
		rt.CloseThread(t.Context(), "g")
		got := a.said()
		for _, want := range []string{
			"a/.well-known/rap-toolset Bearer canary-a", "files/invoke Bearer canary-a", "files/answer Bearer canary-a",
			"a/tool_call_status Bearer canary-a", "a/close_thread Bearer canary-a",
			"b/.well-known/rap-toolset canary-b", "b/close_thread canary-b",
		} {
			if !strings.Contains(got, want+"\n") {
				t.Errorf("%s is missing:\n%s", want, got)
			}
		}

		// If a user's answer goes to another tool server, the headers do not.
		third := w.call("h", "1")
		w.post(tool.callback(), strings.ReplaceAll(strings.ReplaceAll(choice(`["x","y"]`, 0, "http://b.test/answer"), `"group_id":"g"`, `"group_id":"h"`), `"id":"g"`, `"id":"1"`))
		w.user.saw()
		rt.Answer(t.Context(), third, "http://b.test/answer", 1)
		if got := a.said(); !strings.Contains(got, "b/answer \n") || strings.Contains(got, "b/answer Bearer") {
			t.Errorf("the answer to another tool server:\n%s", got)
		}

		// Redirects are not followed, and an error does not reveal the headers.
		tool.ack = func(_ int, rw http.ResponseWriter, _ *agentproto.Invocation) {
			rw.Header().Set("Location", "http://thief.test/invoke")
			rw.WriteHeader(http.StatusTemporaryRedirect)
		}
		redirected := w.call("i", "1")
		text := w.text(redirected)
		if got := a.said(); strings.Contains(got, "thief") {
			t.Errorf("a redirect was followed:\n%s", got)
		}
		if strings.Contains(w.logs.String()+text+fmt.Sprint(rt.Problems()), "canary") {
			t.Error("a header is in the log or in an error")
		}
	})
}

func TestBadHeaders(t *testing.T) {
	for _, tt := range []struct {
		base   string
		header http.Header
		want   string
	}{
		{"http://other.test", http.Header{"X-Key": {"canary"}}, "not among the toolsets"},
		{"http://a.test", http.Header{"X Key": {"canary"}}, "not the name of a header"},
		{"http://a.test", http.Header{"x-key": {"canary"}}, "has to be written X-Key"},
		{"http://a.test", http.Header{"Host": {"canary"}}, "set by the runtime itself"},
		{"http://a.test", http.Header{"Content-Type": {"canary"}}, "set by the runtime itself"},
		{"http://a.test", http.Header{"Webhook-Id": {"canary"}}, "set by the runtime itself"},
		{"http://a.test", http.Header{"X-Key": {"canary\r\nX: y"}}, "not printable ASCII"},
		{"http://a.test", http.Header{"X-Key": {"canary\x00"}}, "not printable ASCII"},
		{"http://a.test", http.Header{"X-Key": {" canary"}}, "not printable ASCII"},
		{"http://a.test", http.Header{"X-Key": {""}}, "is empty"},
		{"http://a.test", http.Header{"X-Key": {strings.Repeat("canary", 4096)}}, "more than 16384 bytes"},
	} {
		_, err := Start(t.Context(), Options{
			Toolsets: []string{"http://a.test/"}, Headers: map[string]http.Header{tt.base: tt.header}, Logger: slog.New(slog.DiscardHandler),
		})
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%.40v: %v, want %q", tt.header, err, tt.want)
		}
	}
}
