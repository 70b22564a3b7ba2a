package host

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/capability"
)

// other returns a different character of the alphabet.
func other(c byte) string {
	if c == 'A' {
		return "B"
	}
	return "A"
}

// TestZ03Capabilities checks that a capability is valid only for its own call and server (R10,
// Z01, Z03).
func TestZ03Capabilities(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool, a, urlA := w.pending()
		b := w.call("h", "2")
		urlB := tool.callback()
		tests := []struct {
			name, url, body string
			want            int
		}{
			{"other call", urlA, result(b, "x"), 403},
			{"other thread", urlA, result(agentproto.CallKey{GroupID: "h", ID: "1"}, "x"), 403},
			{"other id", urlA, result(agentproto.CallKey{GroupID: "g", ID: "2"}, "x"), 403},
			{"malformed for another call", urlA, `{"type":"tool_result","group_id":"h","id":"2"}`, 403},
			{"view of another thread", urlA, `{"type":"view_update","group_id":"h","view_type":"v","content":{}}`, 403},
			{"event of another call", urlA, `{"type":"subscription_event","group_id":"g","tool_call_id":"2","text":"x"}`, 403},
			{"altered", urlA[:len(urlA)-9] + other(urlA[len(urlA)-9]) + urlA[len(urlA)-8:], result(a, "x"), 404},
			{"mixed", urlA[:len(urlA)-40] + urlB[len(urlB)-40:], result(a, "x"), 404},
			{"none", "http://runtime.test/rap/v1/cb/k/t", result(a, "x"), 404},
		}
		var notFound []string
		for _, tt := range tests {
			status, body := w.postBody(tt.url, tt.body)
			if status != tt.want {
				t.Errorf("%s: status %d, want %d", tt.name, status, tt.want)
			}
			if status == 404 {
				notFound = append(notFound, body)
			}
		}
		if slices.Sort(notFound); len(slices.Compact(notFound)) != 1 {
			t.Errorf("answers to forged URLs differ: %q", notFound)
		}
		if got := w.user.saw(); len(got) != 0 {
			t.Errorf("surfaced %q", got)
		}
		w.post(urlA, result(a, "A"))
		w.post(urlB, result(b, "B"))
		if gotA, gotB := w.text(a), w.text(b); gotA != "A" || gotB != "B" {
			t.Errorf("results %q and %q, want A and B", gotA, gotB)
		}
	})
}

// urlOf returns the callback URL for a capability sealed by this world's runtime.
func urlOf(t *testing.T, w *world, c capability.Capability) string {
	t.Helper()
	url, err := c.URL(w.rt.sealer, "http://runtime.test")
	if err != nil {
		t.Fatal(err)
	}
	return url
}

// TestZ03Types checks that a capability accepts only its allowed types. One of another server,
// or an expired one, accepts nothing.
func TestZ03Types(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		_, key, _ := w.pending()
		base := capability.Capability{Server: capability.Identify("http://tool.test"), Key: key, Allowed: capability.MayAll, Expires: time.Now().Add(time.Hour)}
		for _, tt := range []struct {
			may  capability.Kinds
			body string
		}{
			{capability.MayResult, result(key, "x")},
			{capability.MayOAuth, oauth("https://login.test/")},
			{capability.MayChoice, choice(`["a"]`, 0, "http://tool.test/answer")},
			{capability.MayEvent, `{"type":"subscription_event","group_id":"g","tool_call_id":"1","text":"x"}`},
			{capability.MayView, `{"type":"view_update","group_id":"g","view_type":"v","content":{}}`},
		} {
			c := base
			c.Allowed &^= tt.may
			if status := w.post(urlOf(t, w, c), tt.body); status != 403 {
				t.Errorf("%s: status %d, want 403", tt.body, status)
			}
		}
		elsewhere := base
		elsewhere.Server = capability.Identify("http://other.test")
		if status := w.post(urlOf(t, w, elsewhere), result(key, "x")); status != 404 {
			t.Errorf("other server: status %d, want 404", status)
		}
		url := urlOf(t, w, base)
		w.pass(time.Hour)
		if status := w.post(url, result(key, "x")); status != 404 {
			t.Errorf("expired: status %d, want 404", status)
		}
	})
}

// TestLogHasNoCapabilities checks that secrets are not logged.
func TestLogHasNoCapabilities(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool, key, url := w.pending()
		w.post(url, oauth("https://login.test/?state=canary-oauth"))
		w.post(url, `{"type":"nonsense"}`)
		w.post(url, result(key, "canary-text"))
		w.post(strings.Replace(url, "/cb/", "/cb/x", 1), result(key, "x"))
		second := w.call("g", "2")
		w.post(tool.callback(), strings.ReplaceAll(choice(`["a"]`, 0, "http://tool.test/gone/canary-answer"), `"id":"1"`, `"id":"2"`))
		w.rt.Answer(t.Context(), second, "http://tool.test/gone/canary-answer", 0)
		w.pass(time.Hour)
		logs := w.logs.String()
		_, token, _ := strings.Cut(url, capability.Path)
		for _, secret := range []string{token, token[len(token)-20:], "canary"} {
			if strings.Contains(logs, secret) {
				t.Errorf("the log contains %q:\n%s", secret, logs)
			}
		}
		if !strings.Contains(logs, "callback refused") {
			t.Errorf("nothing was logged:\n%s", logs)
		}
	})
}
