package conform_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto/conform"
	"github.com/millrace/millrace/agentproto/internal/undertest"
	"github.com/millrace/millrace/agentproto/toolserver"
)

// A wrong is a mistake that a tool server could make, and the case that catches it.
type wrong struct {
	name     string
	caughtBy string
	in       func(http.Handler) http.Handler           // middleware in front of the server
	out      func(http.RoundTripper) http.RoundTripper // transport for its callbacks
	options  func(*toolserver.Options)
}

var wrongs = []wrong{
	{name: "two results", caughtBy: "A07", out: twice},
	{name: "runs a repeated key again", caughtBy: "A06", in: received("/invoke", freshID), out: sent(oldID)},
	{name: "no call_id", caughtBy: "A12", out: sent(func(m map[string]any) { delete(m, "call_id") })},
	{name: "call_id in upper case", caughtBy: "A12", out: sent(upper("call_id"))},
	{name: "reflects Host", caughtBy: "D03", in: reflectHost},
	{name: "works before it acknowledges", caughtBy: "A01", in: late},
	{name: "any Content-Type", caughtBy: "A05", in: request(func(r *http.Request) { r.Header.Set("Content-Type", "application/json") })},
	{name: "lets strangers in", caughtBy: "A11", in: trusting()},
	{name: "500 for an unknown tool", caughtBy: "A02", in: noSuchTool},
	{name: "an error that does not say so", caughtBy: "A03", out: sent(cutPrefix)},
	{name: "a stack in the result", caughtBy: "A08", out: sent(withStack)},
	{name: "400 answered as 500", caughtBy: "A04", in: answer(400, 500)},
	{name: "retries on 404", caughtBy: "C02", out: answered(404, 503)},
	{name: "does not retry", caughtBy: "C01", out: answered(500, 400)},
	{name: "goes on after 410", caughtBy: "C06", out: answered(410, 503)},
	{name: "does not wait for Retry-After", caughtBy: "C04", out: impatient},
	{name: "another webhook-id for each attempt", caughtBy: "C05", out: renumbered()},
	{name: "follows redirects", caughtBy: "C07", out: following},
	{name: "mixes up calls", caughtBy: "C08", out: mixedUp()},
	{name: "calls back anybody", caughtBy: "Z05", options: func(o *toolserver.Options) { o.CallbackOrigins = nil }},
	{name: "cancels by id alone", caughtBy: "K05", in: byIDAlone()},
	{name: "404 for what is not there to cancel", caughtBy: "K04", in: noSuchCall},
	{name: "does not cancel", caughtBy: "K06", in: deaf("/cancel_tool_call")},
	{name: "does not end subscriptions", caughtBy: "S14", in: deaf("/cancel_tool_call")},
	{name: "closes no thread", caughtBy: "S15", in: deaf("/close_thread")},
	{name: "events overtake each other", caughtBy: "S16", out: overtaking()},
	{name: "an answer to any address", caughtBy: "U10", in: anyAnswer, out: sent(rememberQuestion)},
	{name: "takes any selection", caughtBy: "U09", in: anySelection},
	{name: "takes any state", caughtBy: "O11", in: anyState()},
	{name: "takes any issuer", caughtBy: "O14", options: func(o *toolserver.Options) {
		p := &o.Providers[0]
		p.Issuer, p.RequireIssuer = "", false
		p.SubjectIsUser, p.UnsafeAnyoneMayAuthorize = false, "who authorizes cannot be told without an issuer"
	}},
	{name: "takes any browser", caughtBy: "O24", options: func(o *toolserver.Options) { o.NoStartPage = true }},
	{name: "shows what the provider says", caughtBy: "O10", in: echoing("error_description")},
	{name: "shows the code", caughtBy: "O19", in: echoing("code")},
	{name: "one token for all", caughtBy: "O22", in: received("/invoke", func(m map[string]any) { m["user_id"] = "everybody" })},
	{name: "the first of two members", caughtBy: "W01", in: received("/invoke", func(map[string]any) {})},
	{name: "members in any case", caughtBy: "W02", in: received("/invoke", upper("Group_ID"))},
	{name: "any bytes", caughtBy: "W03", in: received("/invoke", func(map[string]any) {})},
	{name: "any depth", caughtBy: "W04", in: received("/invoke", func(m map[string]any) { delete(m, "extra") })},
	{name: "something after the message", caughtBy: "W05", in: received("/invoke", func(map[string]any) {})},
	{name: "refuses unknown members", caughtBy: "W06", in: known},
	{name: "a relative endpoint", caughtBy: "D01", in: relative},
	{name: "waits for ever for a choice", caughtBy: "U11", options: func(o *toolserver.Options) { o.ChoiceTimeout = time.Hour }},
	{name: "a grant that children do not have", caughtBy: "U12", in: received("/invoke", func(m map[string]any) { delete(m, "thread_ancestors") })},
	{name: "a redirect is fine twice", caughtBy: "O12", in: answer(400, 200)},
	{name: "forgets tokens", caughtBy: "O09", options: func(o *toolserver.Options) { o.Vault = forgetful{} }},
	{name: "tokens in a file", caughtBy: "O20", options: func(o *toolserver.Options) { o.Vault = &openVault{folder: o.State} }},
	{name: "an error for ids it does not like", caughtBy: "X04", in: answer(400, 500)},
	{name: "tells that a cleanup failed", caughtBy: "X05", in: status("/close_thread", 500)},
	{name: "says that it has moved", caughtBy: "G07", in: deaf("/migrate")},
	{name: "an error for unknown sessions", caughtBy: "G09", in: status("/migrate", 500)},
	{name: "moves anywhere", caughtBy: "G10", in: status("/migrate", 200)},
	{name: "serves what has moved", caughtBy: "G11", in: deaf("/migrate")},
	{name: "tells more than the status", caughtBy: "E02", in: talkative},
	{name: "follows redirects to this machine", caughtBy: "Z04", out: following},
	{name: "accepts more than it can do", caughtBy: "A10", options: func(o *toolserver.Options) { o.MaxCalls = 0 }},
	{name: "ids of ASCII", caughtBy: "W11", out: sent(ascii)},
}

// TestWrongTools runs cases against servers that are wrong on purpose. Each case must
// fail: a runner that finds nothing proves nothing. TestOurTools checks that the cases
// pass without the mistake.
func TestWrongTools(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup
	room := make(chan struct{}, 16) // the servers wait more than they compute
	all.Go(func() { t.Run("keeps nothing", forgetfulTools) })
	for _, w := range wrongs {
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			t.Run(w.name, func(t *testing.T) { w.check(t) })
		})
	}
	all.Wait()
}

func (w wrong) check(t *testing.T) {
	target, end, err := undertest.Start(t.TempDir(), undertest.Change{Handler: w.in, Options: func(o *toolserver.Options) {
		o.Logger = slog.New(slog.DiscardHandler)
		if w.out != nil {
			o.CallbackTransport = w.out(&http.Transport{})
		}
		if w.options != nil {
			w.options(o)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	report, err := conform.RunTool(t.Context(), target, conform.Options{Run: w.caughtBy})
	if err != nil {
		t.Fatal(err)
	}
	if r := report.Results[0]; r.Status != conform.Failed {
		t.Errorf("%s: %s %s, want fail", r.ID, r.Status, r.Reason)
	}
}

// A tripper is a function that sends a request.
type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// bodyOf reads the body of a request and restores it for the next reader.
func bodyOf(r *http.Request) []byte {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return nil
	}
	setBody(r, data)
	return data
}

func setBody(r *http.Request, data []byte) {
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
}

// altered changes the members of a body, read as a careless server would.
func altered(data []byte, change func(map[string]any)) []byte {
	var m map[string]any
	if json.NewDecoder(bytes.NewReader(data)).Decode(&m) != nil || m == nil {
		return data
	}
	change(m)
	out, err := json.Marshal(m)
	if err != nil {
		return data
	}
	return out
}

// sent changes every message that leaves.
func sent(change func(map[string]any)) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return tripper(func(r *http.Request) (*http.Response, error) {
			setBody(r, altered(bodyOf(r), change))
			return next.RoundTrip(r)
		})
	}
}

// received changes every message that arrives at a path.
func received(path string, change func(map[string]any)) func(http.Handler) http.Handler {
	return request(func(r *http.Request) {
		if r.URL.Path == path {
			setBody(r, altered(bodyOf(r), change))
		}
	})
}

// request changes every request.
func request(change func(*http.Request)) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			change(r)
			next.ServeHTTP(w, r)
		})
	}
}

// response changes every response.
func response(change func(*http.Request, *httptest.ResponseRecorder)) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			rec := httptest.NewRecorder()
			next.ServeHTTP(rec, r)
			change(r, rec)
			for k, v := range rec.Header() {
				w.Header()[k] = v
			}
			w.Header().Del("Content-Length")
			w.WriteHeader(rec.Code)
			w.Write(rec.Body.Bytes())
		})
	}
}

func answer(from, to int) func(http.Handler) http.Handler {
	return response(func(_ *http.Request, rec *httptest.ResponseRecorder) {
		if rec.Code == from {
			rec.Code = to
		}
	})
}

// answered replaces a response status before the server reads it.
func answered(from, to int) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return tripper(func(r *http.Request) (*http.Response, error) {
			resp, err := next.RoundTrip(r)
			if err == nil && resp.StatusCode == from {
				resp.StatusCode = to
			}
			return resp, err
		})
	}
}

func upper(name string) func(map[string]any) {
	return func(m map[string]any) {
		if s, ok := m[name].(string); ok && name == "call_id" {
			m[name] = strings.ToUpper(s)
		} else if ok {
			m[strings.ToLower(name)] = s
			delete(m, name)
		}
	}
}

func cutPrefix(m map[string]any) {
	if s, ok := m["text"].(string); ok {
		m["text"] = strings.TrimPrefix(s, "Error: ")
	}
}

func withStack(m map[string]any) {
	if s, ok := m["text"].(string); ok {
		m["text"] = s + "\ngoroutine 1 [running]:\nmain.go:7"
	}
}

// late delays the acknowledgement.
func late(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/invoke" {
			<-time.After(120 * time.Millisecond)
		}
		next.ServeHTTP(w, r)
	})
}

func reflectHost(next http.Handler) http.Handler {
	return response(func(r *http.Request, rec *httptest.ResponseRecorder) {
		if r.Method == http.MethodGet {
			body := altered(rec.Body.Bytes(), func(m map[string]any) {
				if m["endpoint"] != nil {
					m["endpoint"] = "https://" + r.Host + "/invoke"
				}
			})
			rec.Body = bytes.NewBuffer(body)
		}
	})(next)
}

// trusting gives a request without credentials the last credentials that another request
// had.
func trusting() func(http.Handler) http.Handler {
	var last sync.Map
	return request(func(r *http.Request) {
		if a := r.Header.Get("Authorization"); a != "" {
			last.Store("", a)
		} else if a, ok := last.Load(""); ok {
			r.Header.Set("Authorization", a.(string))
		}
	})
}

func noSuchTool(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/invoke" && strings.Contains(string(bodyOf(r)), "no_such_operation") {
			http.Error(w, "no such tool", http.StatusNotFound)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func noSuchCall(next http.Handler) http.Handler {
	return response(func(r *http.Request, rec *httptest.ResponseRecorder) {
		if r.URL.Path == "/cancel_tool_call" {
			rec.Code = http.StatusNotFound
		}
	})(next)
}

// deaf answers a path with 200 and does nothing.
func deaf(path string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != path {
				next.ServeHTTP(w, r)
			}
		})
	}
}

// echoing writes a parameter into the page unescaped.
func echoing(parameter string) func(http.Handler) http.Handler {
	return response(func(r *http.Request, rec *httptest.ResponseRecorder) {
		if v := r.URL.Query().Get(parameter); v != "" {
			fmt.Fprintf(rec.Body, "<p>%s</p>", v)
		}
	})
}

// status answers a path with a status, whatever the server has done.
func status(path string, code int) func(http.Handler) http.Handler {
	return response(func(r *http.Request, rec *httptest.ResponseRecorder) {
		if r.URL.Path == path {
			rec.Code = code
		}
	})
}

func relative(next http.Handler) http.Handler {
	return response(func(r *http.Request, rec *httptest.ResponseRecorder) {
		rec.Body = bytes.NewBuffer(altered(rec.Body.Bytes(), func(m map[string]any) {
			if m["endpoint"] != nil && r.Header.Get("Accept") != "" {
				m["endpoint"] = strings.TrimPrefix(text(m["endpoint"]), "https:")
			}
		}))
	})(next)
}

func talkative(next http.Handler) http.Handler {
	return response(func(r *http.Request, rec *httptest.ResponseRecorder) {
		if r.URL.Path == "/tool_call_status" {
			rec.Body = bytes.NewBuffer(altered(rec.Body.Bytes(), func(m map[string]any) { m["operation"] = "slow" }))
		}
	})(next)
}

// known refuses messages with unknown members.
func known(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && strings.Contains(string(bodyOf(r)), "x-future") {
			http.Error(w, "unknown member", http.StatusBadRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// ascii removes all non-ASCII characters from an id.
func ascii(m map[string]any) {
	m["id"] = strings.Map(func(r rune) rune {
		if r > 127 {
			return -1
		}
		return r
	}, text(m["id"]))
}
