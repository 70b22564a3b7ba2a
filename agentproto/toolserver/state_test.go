package toolserver_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/toolserver"
)

func TestO23_RedirectAfterRestart(t *testing.T) {
	t.Parallel()
	for name, userFirst := range map[string]bool{"the user is first": true, "the call is first": false} {
		t.Run(name, func(t *testing.T) {
			st := newStage(t, toolserver.Options{State: t.TempDir()})
			st.call("whoami", "c1", "{}", user("u1"))
			first := st.authURL()
			to := st.grant(first)
			st.restart()
			if userFirst { // the request that brings the user back starts the server
				if code := st.open(to.String()); code != 200 {
					t.Errorf("page %d", code)
				}
				if m := st.next(); m.Type() == agentproto.TypeOAuth { // it may have asked before the user came back
					if again := m.Callback.(*agentproto.OAuth).AuthURL; again != first {
						t.Error("another auth_url was sent")
					}
				} else if got := m.Callback.(*agentproto.ToolResult).String(); got != "ada" {
					t.Errorf("result %q", got)
				} else {
					st.messages <- m
				}
			} else {
				if err := st.server.Start(); err != nil {
					t.Fatal(err)
				}
				if again := st.authURL(); again != first {
					t.Error("another auth_url was sent")
				}
				if code := st.open(to.String()); code != 200 {
					t.Errorf("page %d", code)
				}
			}
			if got := st.nextResult(); got != "ada" {
				t.Errorf("result %q", got)
			}
			if code := st.open(to.String()); code != 400 {
				t.Errorf("second opening %d", code)
			}
			st.restart() // the token survives, the OAuth state does not
			if code := st.open(to.String()); code != 400 {
				t.Errorf("second opening after a restart %d", code)
			}
			st.call("whoami", "c2", "{}", user("u1"))
			if got := st.nextResult(); got != "ada" {
				t.Errorf("result %q", got)
			}
			if n := st.idp.Exchanges(); n != 1 {
				t.Errorf("%d exchanges", n)
			}
			st.ends()
		})
	}
}

func TestO23_ExpiredAtRestart(t *testing.T) {
	t.Parallel()
	st := newStage(t, toolserver.Options{State: t.TempDir(), OAuthTimeout: 300 * time.Millisecond})
	st.call("whoami", "c1", "{}", user("u1"))
	to := st.grant(st.authURL())
	now, stop := context.WithCancel(t.Context())
	stop()
	st.server.Close(now)
	<-time.After(300 * time.Millisecond)
	st.restart()
	if code := st.open(to.String()); code != 400 {
		t.Errorf("page %d", code)
	}
	if got := st.nextResult(); got != "Error: the authorization was not completed in time" {
		t.Errorf("result %q", got)
	}
	st.ends()
}

func TestO23_ChangedMeanwhile(t *testing.T) {
	t.Parallel()
	st := newStage(t, toolserver.Options{State: t.TempDir()})
	st.call("whoami", "c1", "{}", user("u1"))
	first := st.authURL()
	to := st.grant(first)
	// The server does not send what one provider issued to another one (threat 21).
	st.restart(func(o *toolserver.Options) {
		changed := o.Providers[0]
		changed.TokenURL += "?other"
		o.Providers = []toolserver.OAuthProvider{changed}
	})
	if code := st.open(to.String()); code != 400 {
		t.Errorf("page %d", code)
	}
	if again := st.authURL(); again == first {
		t.Error("the old state is used for another provider")
	}
	if strings.Contains(st.log.String(), "cannot be decrypted") {
		t.Errorf("nothing was encrypted with another key: %s", st.log)
	}
	// An authorization that cannot be decrypted starts over.
	st.restart(func(o *toolserver.Options) {
		keys, err := toolserver.LoadKeyset(t.TempDir() + "/keys.json")
		if err != nil {
			t.Fatal(err)
		}
		o.Keys, o.Vault = keys, toolserver.NewMemoryVault()
	})
	if code := st.open(to.String()); code != 400 {
		t.Errorf("page %d", code)
	}
	if again := st.authURL(); again == first {
		t.Error("a state that cannot be read is used")
	}
	if st.post("/cancel_tool_call", `{"thread_id":"thread-1","tool_call_id":"c1"}`).Code != 200 {
		t.Error("not cancelled")
	}
	st.ends()
	if st.idp.Exchanges() != 0 || !strings.Contains(st.log.String(), "authorizations cannot be decrypted") {
		t.Errorf("%d exchanges, log %s", st.idp.Exchanges(), st.log)
	}
}

func TestK07_CancelledBeforeRestart(t *testing.T) {
	t.Parallel()
	st := newStage(t, toolserver.Options{State: t.TempDir()})
	st.call("whoami", "c1", "{}", user("u1"))
	to := st.grant(st.authURL())
	st.post("/cancel_tool_call", `{"thread_id":"thread-1","tool_call_id":"c1"}`)
	st.restart()
	if code := st.open(to.String()); code != 400 || st.idp.Exchanges() != 0 {
		t.Errorf("page %d, %d exchanges", code, st.idp.Exchanges())
	}
	st.ends()
}

func TestOneAuthorizationForSeveralCalls(t *testing.T) {
	st := newStage(t, toolserver.Options{})
	urls := map[string]bool{}
	for _, id := range []string{"c1", "c2", "c3"} {
		st.call("whoami", id, "{}", user("u1"))
		urls[st.authURL()] = true
	}
	st.call("whoami", "c4", "{}", user("u2"))
	other := st.authURL()
	if len(urls) != 3 {
		t.Error("calls share a state")
	}
	var last string
	for last = range urls {
	}
	st.allow(last, "ada", "lovelace")
	for range urls {
		if got := st.nextResult(); got != "ada" {
			t.Errorf("result %q", got)
		}
	}
	for u := range urls { // unused authorizations are over
		if code := st.open(st.grant(u).String()); code != http.StatusBadRequest {
			t.Errorf("page %d", code)
		}
	}
	st.allow(other, "bob", "builder")
	if got := st.nextResult(); got != "bob" {
		t.Errorf("result %q", got)
	}
	st.ends()
}
