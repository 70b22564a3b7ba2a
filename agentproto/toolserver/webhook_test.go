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

// signature is what Standard Webhooks has for a signature.
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
			for _, a := range last { // the one that failed, too
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
