package toolserver_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/agentproto/toolserver"
)

// named authenticates any caller with a name.
func named(r *http.Request) (string, error) {
	if name := r.Header.Get("Authorization"); name != "" {
		return name, nil
	}
	return "", errors.New("nobody")
}

// TestThreat28_Notifications fails if one runtime can keep the server busy with
// notifications, or if others are limited because of it.
func TestThreat28_Notifications(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := newRuntime(t, toolserver.Options{
			Authenticate: named, Status: true,
			Migrator: toolserver.OwnState{}, MigrationKey: toolserver.NewSecret("0123456789abcdef0123456789abcdef"),
		})
		addTools(rt.server)
		const cancel = `{"thread_id":"t","tool_call_id":"c"}`
		for _, test := range []struct {
			path, body string
			burst      int
			good       int
		}{
			{"/cancel_tool_call", cancel, 5000, 200},
			{"/close_thread", `{"thread_id":"t"}`, 0, 200}, // shares the limit of the one before
			{"/tool_call_status", cancel, 0, 200},
			{"/migrate", `{"session_id":"s","destination_url":"https://elsewhere.example"}`, 200, 403},
		} {
			for i := range test.burst {
				if w := rt.post(test.path, test.body, "Authorization", "a"); w.Code != test.good {
					t.Fatalf("%s, number %d: %d", test.path, i, w.Code)
				}
			}
			if w := rt.post(test.path, test.body, "Authorization", "a"); w.Code != 503 || w.Header().Get("Retry-After") != "1" {
				t.Errorf("%s beyond the bound: %d %v", test.path, w.Code, w.Header())
			}
			if w := rt.post(test.path, test.body, "Authorization", "b"); w.Code != test.good {
				t.Errorf("%s by another runtime: %d", test.path, w.Code)
			}
			if w := rt.post(test.path, test.body); w.Code != 401 {
				t.Errorf("%s by a stranger: %d", test.path, w.Code)
			}
		}
		<-time.After(time.Second)
		for _, path := range []string{"/cancel_tool_call", "/migrate"} {
			if w := rt.post(path, `{"thread_id":"t","tool_call_id":"c","session_id":"s","destination_url":"https://elsewhere.example"}`, "Authorization", "a"); w.Code == 503 {
				t.Errorf("%s a second later: %d", path, w.Code)
			}
		}
		rt.close()
	})
}

// TestA10_OneRuntime fails if one runtime can take the places of all others, for instance
// because it is down and its results cannot be delivered.
func TestA10_OneRuntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := newRuntime(t, toolserver.Options{Authenticate: named, MaxCalls: 8})
		release := make(chan struct{})
		toolserver.Add(rt.server, "hold", "Waits.", func(context.Context, none) (string, error) { <-release; return "ok", nil })
		invoke := func(runtime string, n int) int {
			return rt.post("/invoke", fmt.Sprintf(`{"operation":"hold","id":"%s%d","group_id":"g","callback_url":"https://runtime.example/cb"}`, runtime, n), "Authorization", runtime).Code
		}
		want := func(runtime string, n, code int) {
			t.Helper()
			if got := invoke(runtime, n); got != code {
				t.Errorf("call %d of %s: %d, want %d", n, runtime, got, code)
			}
		}
		for n := range 4 {
			want("a", n, 200)
		}
		want("a", 4, 503)
		want("a", 3, 200) // a repetition
		for n := range 4 {
			want("b", n, 200)
		}
		want("c", 0, 503) // no places are left at all
		close(release)
		for range 8 {
			rt.nextResult()
		}
		synctest.Wait()
		for n := 4; n < 8; n++ {
			want("a", n, 200)
		}
		for range 4 {
			rt.nextResult()
		}
		rt.close()
	})
}
