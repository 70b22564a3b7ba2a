package host

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/millrace/millrace/agentproto"
)

// secret returns a secret made of one character.
func secret(c string) string {
	return "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(c, 32)))
}

// signed posts a callback signed with a secret.
func (w *world) signed(url, body, secret, id string, at time.Time) int {
	w.t.Helper()
	webhook, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		w.t.Fatal(err)
	}
	signature, err := webhook.Sign(id, at, []byte(body))
	if err != nil {
		w.t.Fatal(err)
	}
	status, _ := w.send("POST", url, strings.NewReader(body), "Content-Type", "application/json",
		"webhook-id", id, "webhook-timestamp", fmt.Sprint(at.Unix()), "webhook-signature", signature)
	return status
}

// TestZ02Signatures checks that a tool server with a secret has to sign what it posts,
// with that secret and a recent time (Z02, threat 2). Anything else is refused and
// changes nothing.
func TestZ02Signatures(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.opts.Secrets = map[string][]string{"http://tool.test/": {secret("n"), secret("o")}}
		w.opts.Limits.Bytes = 1000
		_, key, url := w.pending()
		body := result(key, "ok")
		now := time.Now()
		refused := map[string]int{
			"unsigned":           w.post(url, body),
			"unsigned malformed": w.post(url, `{"type":"tool_result"}`),
			"another secret":     w.signed(url, body, secret("x"), "msg_1", now),
			"stale":              w.signed(url, body, secret("n"), "msg_1", now.Add(-5*time.Minute-time.Second)),
			"from the future":    w.signed(url, body, secret("n"), "msg_1", now.Add(5*time.Minute+time.Second)),
			"no id":              w.signed(url, body, secret("n"), "", now),
		}
		status, _ := w.send("POST", url, strings.NewReader(body), "webhook-signature", "v1,AAAA")
		refused["text/plain"] = status
		for name, status := range refused {
			if status != 401 {
				t.Errorf("%s: status %d, want 401", name, status)
			}
		}
		if status := w.post(url, strings.Repeat(" ", 2000)); status != 413 {
			t.Errorf("too large: status %d, want 413", status)
		}
		if st := w.stats(); st.Failures != 0 || st.Results != 0 || st.Forged != uint64(len(refused)) {
			t.Errorf("stats %+v, want nothing but %d forged", st.Counts, len(refused))
		}
		if status := w.signed(url, body, secret("o"), "msg_1", now.Add(-4*time.Minute)); status != 200 || w.text(key) != "ok" {
			t.Errorf("signed with the older secret: status %d", status)
		}
		second := w.call("g", "2")
		if status := w.signed(url, `{"type":"tool_result","group_id":"g","id":"1"}`, secret("n"), "msg_2", now); status != 400 {
			t.Errorf("signed and malformed: status %d, want 400", status)
		}
		if got := w.logs.String(); strings.Contains(got, secret("n")) || strings.Contains(got, strings.Repeat("n", 32)) {
			t.Error("the log contains a secret")
		}
		w.rt.Cancel(t.Context(), second)
	})
}

// TestZ02Replays checks that a repeated signed message has no effect, even after its
// request is over (Z02, threat 2). A retry with the same id is answered like the first
// attempt (C05).
func TestZ02Replays(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.opts.Secrets = map[string][]string{"http://tool.test": {secret("n")}}
		tool, key, url := w.pending()
		at := time.Now()
		again := func(id, body string) {
			t.Helper()
			if status := w.signed(url, body, secret("n"), id, at); status != 200 {
				t.Errorf("%s: status %d, want 200", id, status)
			}
		}
		ask := choice(`["a","b"]`, 0, answerURL)
		again("msg_view", view("g", "v", `{"n":1}`))
		again("msg_choice", ask)
		if err := w.rt.Answer(t.Context(), key, answerURL, 1); err != nil {
			t.Fatal(err)
		}
		again("msg_view2", view("g", "v", `{"n":2}`))
		tool.answersGot()
		again("msg_choice", ask)
		again("msg_view", view("g", "v", `{"n":1}`))
		if got, want := w.views("g"), `v {"n":2}`; got != want {
			t.Errorf("views %s, want %s", got, want)
		}
		saw := strings.Join(w.user.saw(), "\n")
		if strings.Count(saw, "choice ") != 1 || strings.Count(saw, "view ") != 2 {
			t.Errorf("saw:\n%s\nwant one choice and two views", saw)
		}
		again("msg_result", result(key, "ok"))
		again("msg_result", result(key, "ok"))
		if st := w.stats(); st.Duplicates != 3 || st.Results != 1 {
			t.Errorf("stats %+v, want three duplicates", st.Counts)
		}
		w.pass(5*time.Minute + time.Second)
		if status := w.signed(url, ask, secret("n"), "msg_choice", at); status != 401 {
			t.Errorf("later: status %d, want 401", status)
		}
	})
}

// TestRepeatedWithoutSecret checks that a message with a repeated id has no effect
// without secrets either. Messages without an id are all accepted.
func TestRepeatedWithoutSecret(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		_, _, url := w.pending()
		for _, id := range []string{"a", "a", "b", "", "", strings.Repeat("x", 5000), strings.Repeat("x", 5000)} {
			status, _ := w.send("POST", url, strings.NewReader(view("g", "v", `{"n":1}`)), "Content-Type", "application/json", "webhook-id", id)
			if status != 200 {
				t.Errorf("id %.5s: status %d", id, status)
			}
		}
		if n := len(w.user.saw()); n != 5 {
			t.Errorf("%d views were shown, want 5", n)
		}
	})
}

// TestOneIDForAllMessages has a tool server send all messages of a call with one id. The test fails if the result counts as a
// repetition of the message before it, so that the call has no result although the tool server was answered 200.
func TestOneIDForAllMessages(t *testing.T) {
	for _, before := range []string{oauth("https://login.example/"), choice(`["a","b"]`, 0, "http://tool.test/answer"), view("g", "v", `{"n":1}`)} {
		inWorld(t, func(t *testing.T, w *world) {
			_, key, url := w.pending()
			for _, body := range []string{before, before, result(key, "ok"), result(key, "again")} {
				if status, _ := w.send("POST", url, strings.NewReader(body), "Content-Type", "application/json", "webhook-id", "same"); status != 200 {
					t.Errorf("status %d for %s", status, body)
				}
			}
			if got := w.text(key); got != "ok" {
				t.Errorf("after %s: result %q", before, got)
			}
			if st := w.stats(); st.Results != 1 || st.Duplicates != 2 {
				t.Errorf("after %s: stats %+v", before, st.Counts)
			}
		})
	}
}

// TestSwappedURLs checks that a tool server that has obtained the callback URL of another
// server's call can answer that call unless the servers have different secrets (threat
// 4). It cannot answer its own calls there.
func TestSwappedURLs(t *testing.T) {
	for _, secrets := range []map[string][]string{nil, {"http://a.test": {secret("a")}, "http://b.test": {secret("b")}}} {
		inWorld(t, func(t *testing.T, w *world) {
			w.opts.Secrets = secrets
			a, b := w.tool("a.test", "one"), w.tool("b.test", "two")
			w.start(a.base, b.base)
			call := func(op string) agentproto.CallKey {
				key, err := w.rt.Call(t.Context(), Request{GroupID: "g", ID: op, Operation: op})
				if err != nil {
					t.Fatal(err)
				}
				return key
			}
			one, two := call("one"), call("two")
			urlOne, urlTwo := a.callbackOf(one), b.callbackOf(two)
			post := func(url, body, key string) int {
				if secrets == nil {
					return w.post(url, body)
				}
				return w.signed(url, body, key, "msg_"+fmt.Sprint(len(body)), time.Now())
			}
			want := 403
			if secrets != nil {
				want = 401
			}
			if status := post(urlTwo, result(one, "x"), secret("a")); status != want {
				t.Errorf("A's result at B's URL: status %d, want %d", status, want)
			}
			if status := post(urlOne, result(two, "x"), secret("b")); status != want {
				t.Errorf("B's result at A's URL: status %d, want %d", status, want)
			}
			if secrets != nil {
				if status := post(urlOne, result(one, "forged"), secret("b")); status != 401 {
					t.Errorf("B answers A's call: status %d, want 401", status)
				}
			}
			if post(urlOne, result(one, "A"), secret("a")) != 200 || post(urlTwo, result(two, "B"), secret("b")) != 200 {
				t.Error("a result of a call's own server was refused")
			}
			if gotOne, gotTwo := w.text(one), w.text(two); gotOne != "A" || gotTwo != "B" {
				t.Errorf("results %q and %q", gotOne, gotTwo)
			}
		})
	}
}

// TestRequestsAreSigned checks that every post to a tool server with secrets is signed
// with each of them. The id stays the same, and the time is that of the attempt.
func TestRequestsAreSigned(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.opts.Secrets = map[string][]string{"http://tool.test": {secret("n"), secret("o")}}
		tool := w.tool("unused.test")
		tool.base, tool.manifest = "http://tool.test", strings.ReplaceAll(tool.manifest, "unused.", "tool.")
		tool.ack = func(n int, rw http.ResponseWriter, _ *agentproto.Invocation) {
			if n == 1 {
				rw.WriteHeader(503)
			}
		}
		type message struct{ path, id string }
		var got []message
		w.host("tool.test", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				body, _ := io.ReadAll(r.Body)
				for _, s := range []string{secret("n"), secret("o")} {
					webhook, _ := standardwebhooks.NewWebhook(s)
					if err := webhook.Verify(body, r.Header); err != nil {
						t.Errorf("%s: %v", r.URL.Path, err)
					}
				}
				got = append(got, message{r.URL.Path, r.Header.Get("webhook-id")})
				r.Body = io.NopCloser(strings.NewReader(string(body)))
			}
			tool.ServeHTTP(rw, r)
		}))
		w.start("http://tool.test")
		key := w.call("g", "1")
		w.pass(10 * time.Minute) // the second attempt has its own time
		w.signed(tool.callback(), choice(`["a"]`, 0, answerURL), secret("n"), "msg_1", time.Now())
		tool.invocations()
		if err := w.rt.Answer(t.Context(), key, answerURL, 0); err != nil {
			t.Fatal(err)
		}
		tool.answersGot()
		w.rt.Cancel(t.Context(), key)
		tool.noticed()
		w.rt.CloseThread(t.Context(), "g")
		tool.noticed()
		ids := map[string]bool{}
		paths := ""
		for _, m := range got {
			paths += m.path + " "
			ids[m.id] = true
		}
		if want := "/invoke /invoke /answer /cancel_tool_call /close_thread "; paths != want || len(ids) != 4 || got[0].id != got[1].id {
			t.Errorf("posted %q with %d ids, want %q with 4", paths, len(ids), want)
		}
	})
}

func TestSecretsRefused(t *testing.T) {
	for _, secrets := range []map[string][]string{
		{"http://other.test": {secret("a")}},
		{"http://tool.test": {"whsec_%%%canary"}},
		{"http://tool.test": {"whsec_Y2FuYXJ5"}},
		{"http://tool.test": {secret("a"), ""}},
		{"http://tool.test": nil},
	} {
		rt, err := Start(t.Context(), Options{Toolsets: []string{"http://tool.test"}, Secrets: secrets})
		if err == nil {
			rt.Stop(t.Context())
			t.Errorf("%v was accepted", secrets)
		} else if strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), "Y2FuYXJ5") {
			t.Errorf("the error contains a secret: %v", err)
		}
	}
}
