package toolserver_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/agentproto/toolserver"
)

// key is the n-th webhook secret of the tests.
func key(n byte) (raw []byte, secret toolserver.Secret) {
	raw = []byte(strings.Repeat(string('a'+rune(n)), 32))
	return raw, toolserver.NewSecret("whsec_" + base64.StdEncoding.EncodeToString(raw))
}

// signature computes a signature of Standard Webhooks.
func signature(raw []byte, id, timestamp, body string) string {
	h := hmac.New(sha256.New, raw)
	h.Write([]byte(id + "." + timestamp + "." + body))
	return "v1," + base64.StdEncoding.EncodeToString(h.Sum(nil))
}

func TestMessagesAreSigned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, first := key(1)
		two, second := key(2)
		three, third := key(3)
		rt := newRuntime(t, toolserver.Options{Secrets: map[string][]toolserver.Secret{
			"https://runtime.example": {first, second}, "": {third},
		}})
		addTools(rt.server)
		rt.answer = func(n int, _ received) (*http.Response, error) { return status(200 + n%2*300), nil }
		check := func(raw ...[]byte) {
			t.Helper()
			m := rt.next()
			attempts := rt.sent()
			last := attempts[len(attempts)-2:]
			for _, a := range last { // including the one that failed
				stamp := a.header.Get("webhook-timestamp")
				if stamp != strconv.FormatInt(a.at.Unix(), 10) || a.id != m.id {
					t.Errorf("timestamp %s at %v, id %s", stamp, a.at, a.id)
				}
				var want []string
				for _, r := range raw {
					want = append(want, signature(r, a.id, stamp, a.body))
				}
				if got := a.header.Get("webhook-signature"); got != strings.Join(want, " ") {
					t.Errorf("signature %q, want %q", got, want)
				}
			}
			if last[0].header.Get("webhook-timestamp") == last[1].header.Get("webhook-timestamp") {
				t.Error("the attempts have one timestamp")
			}
		}
		rt.call("add", "c1", `{"a":1,"b":2}`)
		check(one, two)
		rt.call("add", "c2", `{"a":1,"b":2}`, callback("https://other.example/cb"))
		check(three)
		rt.close()
	})
}

func TestA11_K05_X04_Signed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, first := key(1)
		two, second := key(2)
		three, third := key(3)
		secrets := map[string][]toolserver.Secret{"blue": {first, second}, "red": {third}}
		rt := newRuntime(t, toolserver.Options{Status: true, Secrets: secrets, Authenticate: toolserver.Signed(secrets)})
		addTools(rt.server)
		post := func(path, body string, raw []byte, at time.Time) int {
			stamp := strconv.FormatInt(at.Unix(), 10)
			w := rt.post(path, body, "webhook-id", "id-1", "webhook-timestamp", stamp, "webhook-signature", signature(raw, "id-1", stamp, body))
			return w.Code
		}
		invocation := `{"operation":"wait","id":"c1","group_id":"g","callback_url":"https://runtime.example/cb"}`
		cancel := `{"thread_id":"g","tool_call_id":"c1"}`
		wrong, _ := key(4)
		for _, path := range []string{"/invoke", "/cancel_tool_call", "/close_thread", "/tool_call_status"} {
			if code := rt.post(path, invocation).Code; code != 401 {
				t.Errorf("%s unsigned: %d", path, code)
			}
			if code := rt.post(path, invocation, "webhook-id", "x", "webhook-timestamp", "now", "webhook-signature", "v1,x").Code; code != 401 {
				t.Errorf("%s with nonsense: %d", path, code)
			}
			if code := post(path, invocation, wrong, time.Now()); code != 401 {
				t.Errorf("%s with another's key: %d", path, code)
			}
			for _, d := range []time.Duration{-6 * time.Minute, 6 * time.Minute} {
				if code := post(path, invocation, one, time.Now().Add(d)); code != 401 {
					t.Errorf("%s signed %v from now: %d", path, d, code)
				}
			}
			if code := post(path, strings.Repeat(" ", 2<<20), one, time.Now()); code != 413 {
				t.Errorf("%s with 2 MiB: %d", path, code)
			}
		}
		if code := post("/invoke", invocation, two, time.Now().Add(-4*time.Minute)); code != 200 {
			t.Errorf("with the second key: %d", code)
		}
		if code := post("/cancel_tool_call", cancel, three, time.Now()); code != 200 { // red cannot cancel for blue
			t.Errorf("cancel: %d", code)
		}
		synctest.Wait()
		if code := post("/cancel_tool_call", cancel, one, time.Now()); code != 200 {
			t.Errorf("cancel: %d", code)
		}
		rt.close()
		if log := rt.log.String(); !strings.Contains(log, "request refused") || strings.Contains(log, "whsec_") || strings.Contains(log, string(one)) {
			t.Errorf("log: %s", log)
		}
	})
}

func TestSignedByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, first := key(1)
		three, third := key(3)
		secrets := map[string][]toolserver.Secret{"blue": {first}, "red": {third}}
		authenticate := toolserver.Signed(secrets)
		stamp := strconv.FormatInt(time.Now().Unix(), 10)
		body := `{"thread_id":"g"}`
		r, _ := http.NewRequest("POST", "/close_thread", strings.NewReader(body))
		r.Header.Set("webhook-id", "x")
		r.Header.Set("webhook-timestamp", stamp)
		r.Header.Set("webhook-signature", "v2,abc v1,AAAA "+signature(three, "x", stamp, body))
		if name, err := authenticate(r); name != "red" || err != nil {
			t.Errorf("%q, %v", name, err)
		}
	})
}

func TestBadSecretsPanic(t *testing.T) {
	for _, bad := range []string{"", "whsec_", "whsec_!!", "whsec_c2hvcnQ=", base64.StdEncoding.EncodeToString(make([]byte, 65))} {
		func() {
			defer func() {
				if p := fmt.Sprint(recover()); !strings.Contains(p, `secret 0 of runtime "blue"`) || bad != "" && strings.Contains(p, bad+"!") {
					t.Errorf("%q: %s", bad, p)
				}
			}()
			toolserver.Signed(map[string][]toolserver.Secret{"blue": {toolserver.NewSecret(bad)}})
		}()
	}
}

// A signedRuntime signs with the secret that it shares with its tool server.
type signedRuntime struct {
	*runtime
	secret []byte
}

func newSignedRuntime(t *testing.T) *signedRuntime {
	raw, secret := key(1)
	secrets := map[string][]toolserver.Secret{"blue": {secret}}
	rt := newRuntime(t, toolserver.Options{
		Status: true, Secrets: secrets, Authenticate: toolserver.Signed(secrets),
		Migrator: toolserver.OwnState{}, MigrationKey: toolserver.NewSecret(migrationKey), MigrationDestinations: []string{"https://b.example"},
	})
	addTools(rt.server)
	return &signedRuntime{rt, raw}
}

// said sends a message that was signed some time ago.
func (rt *signedRuntime) said(ago time.Duration, path, id, body string) int {
	stamp := strconv.FormatInt(time.Now().Add(-ago).Unix(), 10)
	return rt.post(path, body, "webhook-id", id, "webhook-timestamp", stamp, "webhook-signature", signature(rt.secret, id, stamp, body)).Code
}

// want checks whether a call is alive.
func (rt *signedRuntime) want(call string, alive bool) {
	rt.t.Helper()
	synctest.Wait()
	body := `{"thread_id":"g","tool_call_id":"` + call + `"}`
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	w := rt.post("/tool_call_status", body, "webhook-id", "status_1", "webhook-timestamp", stamp, "webhook-signature", signature(rt.secret, "status_1", stamp, body))
	if got := w.Body.String(); got != fmt.Sprintf(`{"alive":%t}`, alive) {
		rt.t.Errorf("%s: %d %s, want alive %t", call, w.Code, got, alive)
	}
}

func invocationOf(call string) string {
	return `{"operation":"wait","id":"` + call + `","group_id":"g","callback_url":"https://runtime.example/cb/` + call + `"}`
}

// TestPurposeOfSignatures sends captured messages to every other path. The answer is 401, and there
// is no effect. A message without a purpose, as from a runtime that follows plain Standard Webhooks,
// is accepted at every path.
func TestPurposeOfSignatures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := newSignedRuntime(t)
		if code := rt.said(0, "/invoke", "invoke_1", invocationOf("c1")); code != 200 {
			t.Fatalf("invocation: %d", code)
		}
		// The body is valid for every path.
		const body = `{"operation":"wait","id":"c2","group_id":"g","thread_id":"g","tool_call_id":"c1","session_id":"g","destination_url":"https://b.example","callback_url":"https://runtime.example/cb","selected":0}`
		paths := map[string]string{"invoke": "/invoke", "cancel": "/cancel_tool_call", "close": "/close_thread", "status": "/tool_call_status", "migrate": "/migrate"}
		for _, of := range []string{"invoke", "answer", "cancel", "close", "status", "migrate"} {
			for what, path := range paths {
				if of == what {
					continue
				}
				if code := rt.said(0, path, of+"_captured", body); code != 401 {
					t.Errorf("a message for %s at %s: %d", of, path, code)
				}
				rt.want("c1", true)
				rt.want("c2", false)
			}
		}
		for _, id := range []string{"msg_1", "d9b2", "Cancel_x", "cancel", "invocation_1"} {
			for _, path := range []string{"/tool_call_status", "/invoke", "/cancel_tool_call"} {
				if code := rt.said(0, path, id, body); code != 200 {
					t.Errorf("plain id %q at %s: %d", id, path, code)
				}
			}
		}
		rt.want("c1", false)
		rt.said(0, "/close_thread", "msg_2", body)
		rt.close()
	})
}

// TestSignedMessagesAgain replays captured messages. As long as their signatures are valid, the answer
// is as before and there is no effect. Later the answer is 401.
func TestSignedMessagesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := newSignedRuntime(t)
		begin := time.Now()
		again := func(path, id, body string, want int) {
			t.Helper()
			if code := rt.said(time.Since(begin), path, id, body); code != want {
				t.Errorf("%s %s: %d, want %d", path, id, code, want)
			}
		}
		const (
			cancel  = `{"thread_id":"g","tool_call_id":"c1"}`
			closing = `{"thread_id":"g"}`
			migrate = `{"session_id":"g","destination_url":"https://b.example"}`
		)
		again("/cancel_tool_call", "cancel_1", cancel, 200) // of a call that does not exist yet
		again("/close_thread", "close_1", closing, 200)
		again("/migrate", "migrate_1", migrate, 200) // there is nothing to move
		<-time.After(90 * time.Second)               // a cancellation also stops a call made within a minute after it
		for i := range 3 {
			again("/invoke", "invoke_1", invocationOf("c1"), 200)
			again("/invoke", "invoke_2", invocationOf("c2"), 200)
			again("/cancel_tool_call", "cancel_1", cancel, 200)
			again("/close_thread", "close_1", closing, 200)
			again("/migrate", "migrate_1", migrate, 409)
			rt.want("c1", true)
			rt.want("c2", true)
			<-time.After(time.Duration(i) * time.Minute)
		}
		<-time.After(3 * time.Minute)
		again("/cancel_tool_call", "cancel_1", cancel, 401)
		again("/close_thread", "close_1", closing, 401)
		rt.want("c1", true)
		begin = time.Now() // a new message has its effect
		again("/cancel_tool_call", "cancel_2", cancel, 200)
		rt.want("c1", false)
		rt.want("c2", true)
		again("/close_thread", "close_2", closing, 200)
		rt.want("c2", false)
		rt.close()
	})
}
