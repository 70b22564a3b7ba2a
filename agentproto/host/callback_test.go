package host

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/display"
)

// pending starts a world with one tool server and one pending call.
func (w *world) pending() (tool *toolServer, key agentproto.CallKey, url string) {
	w.t.Helper()
	tool = w.tool("tool.test")
	w.start(tool.base)
	key = w.call("g", "1")
	return tool, key, tool.callback()
}

func TestR02ContentKeptInOrder(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		_, key, url := w.pending()
		status := w.post(url, `{"type":"tool_result","group_id":"g","id":"1","text":"not this","content":[
			{"type":"text","text":"a"},{"type":"image","data":"aGk=","mediaType":"image/png"},{"type":"text","text":"b"}]}`)
		if status != 200 {
			t.Fatalf("status %d", status)
		}
		r, err := w.rt.Await(t.Context(), key)
		if err != nil || len(r.Result.Content) != 3 || r.Result.Content[2].Text != "b" {
			t.Errorf("result %+v, %v", r, err)
		}
		if got, want := r.Result.String(), "a\n[image: image/png, 2 bytes]\nb"; got != want {
			t.Errorf("R03, R04: text %q, want %q", got, want)
		}
	})
}

// TestMalformedResolves checks that a malformed message is refused with the member's name
// (R05, U03, O02, W01-W06). The call is resolved, because the tool does not send the
// message again.
func TestMalformedResolves(t *testing.T) {
	deep := strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)
	tests := []struct{ id, body, want string }{
		{"R05 no outcome", `{"type":"tool_result","group_id":"g","id":"1"}`, "text"},
		{"R05 text is a number", `{"type":"tool_result","group_id":"g","id":"1","text":1}`, `/text`},
		{"W01 duplicate member", `{"type":"tool_result","group_id":"g","id":"1","text":"a","text":"b"}`, "text"},
		{"W02 other case", `{"type":"tool_result","Group_ID":"g","id":"1","text":"a"}`, "/group_id"},
		{"W03 UTF-8", "{\"type\":\"tool_result\",\"group_id\":\"g\",\"id\":\"1\",\"text\":\"\xff\"}", ""},
		{"W03 surrogate", `{"type":"tool_result","group_id":"g","id":"1","text":"\ud800"}`, ""},
		{"W04 depth", `{"type":"tool_result","group_id":"g","id":"1","text":"a","x":` + deep + `}`, ""},
		{"W05 trailing data", result(agentproto.CallKey{GroupID: "g", ID: "1"}, "a") + "x", ""},
		{"W05 array", `[]`, ""},
		{"W05 byte order mark", "\ufeff" + result(agentproto.CallKey{GroupID: "g", ID: "1"}, "a"), ""},
		{"W10 huge number", `{"type":"user_choice","group_id":"g","id":"1","prompt":"p","choices":["a"],"default":1e400,"response_url":"http://tool.test/answer"}`, "/default"},
		{"W10 beyond 64 bits", strings.Replace(choice(`["a"]`, 0, answerURL), `"default":0`, `"default":9223372036854775808`, 1), "/default"},
		{"W10 not an integer", strings.Replace(choice(`["a"]`, 0, answerURL), `"default":0`, `"default":0.5`, 1), "/default"},
		{"W10 negative", strings.Replace(choice(`["a"]`, 0, answerURL), `"default":0`, `"default":-1`, 1), "/default"},
		{"empty", ``, ""},
		{"unknown type", `{"type":"tool_error","group_id":"g","id":"1"}`, "/type"},
		{"O02 http", oauth("http://login.test/"), "/auth_url"},
		{"O02 javascript", oauth("javascript:alert(1)"), "/auth_url"},
		{"O02 control characters", oauth("https://login.test/\u001b[2J"), "/auth_url"},
		{"O02 user name", oauth("https://login.test@evil.test/"), "/auth_url"},
		{"O02 10 kB", oauth("https://login.test/" + strings.Repeat("x", 10_000)), "/auth_url"},
		{"U03 no choices", choice("[]", 0, "http://tool.test/answer"), "/choices"},
		{"U03 default", choice(`["a"]`, 1, "http://tool.test/answer"), "/default"},
		{"U03 no response_url", `{"type":"user_choice","group_id":"g","id":"1","prompt":"p","choices":["a"],"default":0}`, "/response_url"},
		{"U05 metadata", choice(`["a"]`, 0, "http://169.254.169.254/latest"), "response_url"},
		{"U05 other host", choice(`["a"]`, 0, "http://evil.test/answer"), "response_url"},
		{"U05 other port", choice(`["a"]`, 0, "http://tool.test:22/answer"), "response_url"},
	}
	for _, tt := range tests {
		t.Run(tt.id, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				_, key, url := w.pending()
				status, body := w.postBody(url, tt.body)
				if status != 400 || !strings.Contains(body, tt.want) {
					t.Errorf("answer %d %s, want 400 with %q", status, body, tt.want)
				}
				r, err := w.rt.Await(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				if got := r.Result.String(); r.Cause != agentproto.ByMalformed || !strings.Contains(got, "malformed result: http://tool.test: ") || !strings.Contains(got, tt.want) {
					t.Errorf("resolution %v: %q", r.Cause, got)
				}
				if got := w.user.saw(); len(got) != 0 {
					t.Errorf("surfaced %q", got)
				}
				if st := w.stats(); st.Malformed != 1 || st.Failures != 1 {
					t.Errorf("stats %+v", st.Counts)
				}
			})
		})
	}
}

func jsonString(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func oauth(url string) string {
	return fmt.Sprintf(`{"type":"oauth","group_id":"g","id":"1","auth_url":%s}`, jsonString(url))
}

func choice(choices string, def int, url string) string {
	return fmt.Sprintf(`{"type":"user_choice","group_id":"g","id":"1","prompt":"Go on?","choices":%s,"default":%d,"response_url":%q}`, choices, def, url)
}

// TestW07NotAMessage sends requests that are not messages at all (W07, W08).
func TestW07NotAMessage(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		_, key, url := w.pending()
		body := result(key, "ok")
		asJSON := []string{"Content-Type", "application/json"}
		tests := []struct {
			name, method, url, body string
			header                  []string
			want                    int
		}{
			{"GET", "GET", url, "", nil, 405},
			{"PUT", "PUT", url, body, asJSON, 405},
			{"other path", "POST", "http://runtime.test/other", body, asJSON, 404},
			{"root", "POST", "http://runtime.test/", body, asJSON, 404},
			{"longer path", "POST", url + "/x", body, asJSON, 404},
			{"trailing slash", "POST", url + "/", body, asJSON, 404},
			{"no token", "POST", "http://runtime.test/rap/v1/cb/", body, asJSON, 404},
		}
		for _, tt := range tests {
			if got, _ := w.send(tt.method, tt.url, strings.NewReader(tt.body), tt.header...); got != tt.want {
				t.Errorf("%s: status %d, want %d", tt.name, got, tt.want)
			}
		}
		if status, _ := w.send("POST", url, strings.NewReader(body), "Content-Type", "Application/JSON; charset=utf-8"); status != 200 {
			t.Errorf("with a charset: status %d, want 200", status)
		}
		if got := w.text(key); got != "ok" {
			t.Errorf("result %q, want ok: nothing before resolved the call", got)
		}
	})
}

func TestW08R15TooLarge(t *testing.T) {
	image := fmt.Sprintf(`{"type":"tool_result","group_id":"g","id":"1","content":[{"type":"image","mediaType":"image/png","data":"%s"}]}`, strings.Repeat("x", 9<<20))
	for _, tt := range []struct {
		name   string
		body   io.Reader
		length int
		limit  string
		closed bool
	}{
		{"a text", strings.NewReader(result(agentproto.CallKey{GroupID: "g", ID: "1"}, strings.Repeat("x", 5<<20))), 0, "1048576", false},
		{"an image, with length", strings.NewReader(image), len(image), "8388608", true},
		{"chunked", io.LimitReader(blanks{}, 64<<20), 0, "8388608", true},
		{"an authorization", strings.NewReader(oauthBody(agentproto.CallKey{GroupID: "g", ID: "1"}) + strings.Repeat(" ", 16<<10)), 0, "16384", false},
		{"a choice", strings.NewReader(choiceBody(agentproto.CallKey{GroupID: "g", ID: "1"}, "http://tool.test/answer") + strings.Repeat(" ", 64<<10)), 0, "65536", false},
	} {
		inWorld(t, func(t *testing.T, w *world) {
			_, key, url := w.pending()
			req, err := http.NewRequestWithContext(t.Context(), "POST", url, io.NopCloser(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			req.ContentLength = int64(tt.length)
			req.Header.Set("Content-Type", "application/json")
			resp, err := w.client.Do(req)
			if err != nil {
				t.Fatalf("%s: %v", tt.name, err)
			}
			resp.Body.Close()
			if resp.StatusCode != 413 || resp.Close != tt.closed {
				t.Errorf("%s: status %d, closed %v, want 413 and %v", tt.name, resp.StatusCode, resp.Close, tt.closed)
			}
			if got, want := w.text(key), "larger than "+tt.limit+" bytes"; !strings.Contains(got, want) {
				t.Errorf("%s: result %q, want %q", tt.name, got, want)
			}
		})
	}
}

// TestLimitRaised checks that a raised limit takes effect.
func TestLimitRaised(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.opts.Limits.Bytes = 8 << 20
		_, key, url := w.pending()
		text := strings.Repeat("x", 5<<20)
		if status := w.post(url, result(key, text)); status != 200 || w.text(key) != text {
			t.Errorf("status %d, result of %d bytes", status, len(w.text(key)))
		}
	})
}

func TestR06R07Duplicates(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool, key, url := w.pending()
		for _, text := range []string{"first", "first", "second"} {
			if status := w.post(url, result(key, text)); status != 200 {
				t.Errorf("%s: status %d, want 200", text, status)
			}
		}
		if got := w.text(key); got != "first" {
			t.Errorf("result %q, want first", got)
		}
		if st := w.stats(); st.Results != 1 || st.Duplicates != 2 || st.Toolsets[tool.base].Duplicates != 2 {
			t.Errorf("stats %+v", st)
		}
	})
}

func TestR08ParallelResults(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		_, key, url := w.pending()
		results := w.rt.Results(t.Context())
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				if status := w.post(url, result(key, fmt.Sprint(i))); status != 200 {
					t.Errorf("status %d", status)
				}
			})
		}
		wg.Wait()
		if st := w.stats(); st.Results != 1 || st.Duplicates != 99 {
			t.Errorf("stats %+v, want 1 result and 99 duplicates", st.Counts)
		}
		go w.rt.Stop(context.Background())
		if n := len(slices.Collect(results)); n != 1 {
			t.Errorf("%d resolutions, want 1", n)
		}
	})
}

// TestBusy checks that a tool is asked to try again when the program accepts nothing, and
// never receives a 429.
func TestBusy(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.deliver = stuck
		_, key, url := w.pending()
		start := time.Now()
		for _, body := range []string{result(key, "x"), `{"type":"tool_result"}`} {
			req, _ := http.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader(body))
			req.Header.Set("Content-Type", "application/json")
			resp, err := w.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" {
				t.Errorf("%s: status %d, Retry-After %q, want 503 with one", body, resp.StatusCode, resp.Header.Get("Retry-After"))
			}
		}
		if d := time.Since(start); d != 10*time.Second {
			t.Errorf("two posts took %v, want 5 s each", d)
		}
		if st := w.stats(); st.Busy != 2 {
			t.Errorf("stats %+v, want 2 busy", st.Counts)
		}
	})
}

// TestStopping checks that a runtime that stops defers callbacks and makes no calls.
func TestStopping(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		_, key, url := w.pending()
		w.rt.stopping.Store(true)
		if status := w.post(url, result(key, "x")); status != 503 {
			t.Errorf("status %d, want 503", status)
		}
		w.rt.stopping.Store(false)
		if err := w.rt.Stop(context.Background()); err != nil {
			t.Errorf("Stop: %v", err)
		}
		if err := w.rt.Stop(context.Background()); err != nil {
			t.Errorf("second Stop: %v", err)
		}
		if _, err := w.rt.Call(t.Context(), Request{GroupID: "g", Operation: "echo"}); err != ErrStopped {
			t.Errorf("Call: %v, want ErrStopped", err)
		}
		if err := w.rt.Cancel(t.Context(), key); err != ErrStopped {
			t.Errorf("Cancel: %v, want ErrStopped", err)
		}
		if err := w.rt.CloseThread(t.Context(), "g"); err != ErrStopped {
			t.Errorf("CloseThread: %v, want ErrStopped", err)
		}
		for r := range w.rt.Results(t.Context()) {
			t.Errorf("resolution %+v after the end", r)
		}
	})
}

func TestViewsAndEvents(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool, key, url := w.pending()
		if status := w.post(url, `{"type":"view_update","group_id":"g","view_type":"plan","content":{"a":1}}`); status != 200 {
			t.Errorf("view: status %d", status)
		}
		if status := w.post(url, `{"type":"view_update","group_id":"g","view_type":"plan","content":[]}`); status != 400 {
			t.Errorf("V02: status %d, want 400", status)
		}
		if status := w.post(url, `{"type":"subscription_event","group_id":"g","tool_call_id":"1","text":"x"}`); status != 200 {
			t.Errorf("event: status %d", status)
		}
		if got, want := w.user.saw(), []string{`view g/1 plan {"a":1}`}; !slices.Equal(got, want) {
			t.Errorf("saw %q, want %q", got, want)
		}
		if st := w.stats().Toolsets[tool.base]; st.Views != 1 || st.Events != 1 || st.Malformed != 1 {
			t.Errorf("stats %+v", st)
		}
		w.post(url, result(key, "ok"))
		if got := w.text(key); got != "ok" {
			t.Errorf("result %q: a malformed view resolved the call", got)
		}
	})
}

// TestViewsArePutOff checks that a surface that hangs delays views and nothing else.
func TestViewsArePutOff(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.opts.Bounds = Bounds{Views: 2 * display.MaxWaiting}
		_, key, url := w.pending()
		hang := make(chan struct{})
		w.rt.display.Show(func(context.Context, display.Surface) { <-hang })
		synctest.Wait()
		busy := 0
		for i := range display.MaxWaiting + 5 {
			if w.post(url, fmt.Sprintf(`{"type":"view_update","group_id":"g","view_type":"v%d","content":{"a":1}}`, i)) == 503 {
				busy++
			}
		}
		if busy != 5 {
			t.Errorf("%d views put off, want 5", busy)
		}
		if status := w.post(url, result(key, "ok")); status != 200 || w.text(key) != "ok" {
			t.Errorf("result: status %d", status)
		}
		close(hang)
	})
}
