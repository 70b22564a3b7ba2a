package toolserver_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/agentproto/toolserver"
)

// TestN59_SameKeyOfAnotherRuntime has two authenticated runtimes use one key with one callback_url. The test fails if a call of
// one runtime is taken for a repetition of the other's, gets its result, or can be cancelled or queried by it.
func TestN59_SameKeyOfAnotherRuntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := newRuntime(t, toolserver.Options{Status: true, Authenticate: func(r *http.Request) (string, error) {
			if name := r.Header.Get("X-Runtime"); name != "" {
				return name, nil
			}
			return "", errors.New("who is it?")
		}})
		var mu sync.Mutex
		var keys []string
		toolserver.Add(rt.server, "slow", "Waits.", func(ctx context.Context, in struct {
			Who string `json:"who"`
		}) (string, error) {
			mu.Lock()
			keys = append(keys, toolserver.IdempotencyKey(ctx))
			mu.Unlock()
			<-ctx.Done()
			return "", context.Cause(ctx)
		})
		toolserver.Add(rt.server, "echo", "Says who.", func(ctx context.Context, in struct {
			Who string `json:"who"`
		}) (string, error) {
			mu.Lock()
			keys = append(keys, toolserver.IdempotencyKey(ctx))
			mu.Unlock()
			return in.Who, nil
		})
		invoke := func(operation, who string) {
			body := fmt.Sprintf(`{"operation":%q,"arguments":{"who":%q},"id":"c1","group_id":%q,"callback_url":"https://runtime.example/cb"}`, operation, who, operation)
			if w := rt.post("/invoke", body, "X-Runtime", who); w.Code != 200 {
				t.Fatalf("%s: %d %s", who, w.Code, w.Body)
			}
		}
		for _, who := range []string{"a", "b", "a", "b"} { // the second round is a repetition
			invoke("echo", who)
			synctest.Wait()
		}
		got := []string{rt.nextResult(), rt.nextResult()}
		if !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("results %q", got)
		}
		for _, who := range []string{"a", "b"} {
			invoke("slow", who)
		}
		synctest.Wait()
		const name = `{"thread_id":"slow","tool_call_id":"c1"}`
		rt.post("/cancel_tool_call", name, "X-Runtime", "a")
		synctest.Wait()
		for who, want := range map[string]string{"a": `{"alive":false}`, "b": `{"alive":true}`} {
			if w := rt.post("/tool_call_status", name, "X-Runtime", who); w.Body.String() != want {
				t.Errorf("when a has cancelled, the call of %s is %s, want %s", who, w.Body, want)
			}
		}
		rt.post("/close_thread", `{"thread_id":"slow"}`, "X-Runtime", "b")
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if slices.Sort(keys); len(keys) != 4 || len(slices.Compact(keys)) != 4 {
			t.Errorf("the functions had the keys %q", keys)
		}
		rt.close()
	})
}

// TestN56_PublicWithoutAuthenticate makes public servers that authenticate nobody. Such a server may be open on purpose, so it is
// allowed (doc/protocol.md §11): it tells runtimes apart by where their results go. A server that can move sessions must
// authenticate if it is public.
func TestN56_PublicWithoutAuthenticate(t *testing.T) {
	made := func(public string, moves, authenticates bool) (refused string) {
		defer func() {
			if r := recover(); r != nil {
				refused = fmt.Sprint(r)
			}
		}()
		opts := toolserver.Options{Name: "x", PublicURL: public}
		if moves {
			opts.Migrator, opts.MigrationKey = toolserver.OwnState{}, toolserver.NewSecret(migrationKey)
		}
		if authenticates {
			opts.Authenticate = func(*http.Request) (string, error) { return "a", nil }
		}
		toolserver.New(opts)
		return ""
	}
	for _, x := range []struct {
		public               string
		moves, authenticates bool
		refused              bool
	}{
		{"https://tools.example", false, false, false},
		{"https://tools.example", true, false, true},
		{"http://192.0.2.1:8080", true, false, true},
		{"https://tools.example", true, true, false},
		{"http://127.0.0.1:8080", true, false, false},
	} {
		got := made(x.public, x.moves, x.authenticates)
		if (got != "") != x.refused || x.refused && !strings.HasPrefix(got, "toolserver: New: a Migrator needs Authenticate") {
			t.Errorf("%+v: %q", x, got)
		}
	}
}
