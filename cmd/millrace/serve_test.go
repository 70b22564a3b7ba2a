package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/freeport"
)

// patience is how long a test waits before it fails: for what hangs, and not for a machine that is slow.
const patience = 10 * time.Minute

var (
	serveCalls = flag.Int("serve.calls", 300, "calls made by TestServeKilled and TestServeSharedKilled")
	serveKills = flag.Int("serve.kills", 3, "kill -9 of a runtime by these tests, one a second")
)

// A served is a runtime process that a test can restart with the same state and addresses.
type served struct {
	t     testing.TB
	args  []string
	state string
	// tokenFile names the file of the API token. If it is empty, the token is in the state folder.
	tokenFile string
	api       string
	errors    string // the file of what its processes write to standard error
	cmd       *exec.Cmd
	at        *netHost // the host it runs on; nil for this one
}

func serveRuntime(t testing.TB, state string, tools []string, more ...string) *served {
	listen, api := freeAddress(t), freeAddress(t)
	s := &served{t: t, state: state, api: "http://" + api, args: []string{"serve", "--state", state, "--listen", listen, "--api", api}}
	s.args = append(s.args, more...)
	for _, u := range tools {
		s.args = append(s.args, "--tool", u)
	}
	s.start()
	t.Cleanup(s.kill)
	return s
}

// freeAddress returns an address of this host that nobody listens on.
func freeAddress(t testing.TB) string {
	at, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func (s *served) start() {
	if s.errors == "" {
		s.errors = filepath.Join(s.t.TempDir(), "errors")
	}
	file, err := os.OpenFile(s.errors, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer file.Close()
	s.cmd = millrace(s.t, s.args...)
	s.cmd.Stderr = file
	if err := s.at.within(s.cmd.Start); err != nil {
		s.t.Fatal(err)
	}
}

// kill kills the process with SIGKILL and waits until it has ended.
func (s *served) kill() {
	s.cmd.Process.Kill()
	s.cmd.Wait()
}

// request repeats a request until the answer has one of the statuses. Callers ask only for calls that they
// have made, so 404 for a call is an error unless it is one of the statuses. A call whose repetition is answered 409 was
// accepted when it was tried before, although that was answered 503 or not at all. Give a message a key, so that it counts once.
func (s *served) request(ctx context.Context, method, path, body string, statuses ...int) (int, []byte) {
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	last := "nobody listens" // the last answer
	for tries := 0; ; tries++ {
		req, err := http.NewRequestWithContext(ctx, method, s.api+path, bytes.NewReader([]byte(body)))
		if err != nil {
			s.t.Error(err)
			return 0, nil
		}
		if token, err := findToken(s.tokenFile, s.state); err == nil { // the first start makes it
			req.Header.Set("Authorization", "Bearer "+token)
		}
		req.Header.Set("Content-Type", "application/json")
		if resp, err := s.at.client().Do(req); err == nil {
			text, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode == http.StatusNotFound && strings.HasPrefix(path, "/calls/") && !slices.Contains(statuses, http.StatusNotFound) {
				s.t.Errorf("%s %s: %s", method, path, text)
				return 0, nil
			}
			last = fmt.Sprintf("%d %s", resp.StatusCode, text)
			for _, status := range statuses {
				kept := tries > 0 && path == "/calls" && status == http.StatusAccepted && resp.StatusCode == http.StatusConflict
				if err == nil && (resp.StatusCode == status || kept) {
					return status, text
				}
			}
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			said, _ := os.ReadFile(s.errors)
			s.t.Errorf("%s %s: %v; before that %s\n%s", method, path, ctx.Err(), last, said[max(0, len(said)-2000):])
			return 0, nil
		}
	}
}

// TestServeKilled kills the runtime repeatedly while calls are made and results arrive. It checks that each
// accepted call has exactly one result, that every read returns the same result, and that it is the tool's.
func TestServeKilled(t *testing.T) {
	t.Parallel()
	_, tools := startTool(t)
	callWhileKilled(t, []*served{serveRuntime(t, t.TempDir(), tools)})
}

// callWhileKilled makes calls at runtimes that share them. Each call goes to a random runtime, and its result
// is read at a random one. Meanwhile, about once a second, it kills a random runtime and starts it again.
func callWhileKilled(t *testing.T, all []*served) {
	ctx, cancel := context.WithTimeout(t.Context(), patience+time.Duration(*serveCalls)*20*time.Millisecond+time.Duration(*serveKills)*2*time.Second)
	defer cancel()
	up := func() {
		for _, s := range all {
			s.request(ctx, "GET", "/calls/none/none", "", http.StatusNotFound)
		}
	}
	one := func() *served { return all[rand.IntN(len(all))] }
	up()
	var killing atomic.Bool
	killing.Store(true)
	killer := make(chan struct{})
	go func() {
		defer close(killer)
		defer killing.Store(false)
		for range *serveKills {
			select {
			case <-time.After(time.Duration(500+rand.IntN(1000)) * time.Millisecond):
			case <-ctx.Done():
				return
			}
			s := one()
			s.kill()
			s.start()
		}
	}()
	var mu sync.Mutex
	texts := make(map[int]string)
	var callers sync.WaitGroup
	var made atomic.Int64
	for range 16 {
		callers.Go(func() {
			for ctx.Err() == nil {
				i := int(made.Add(1)) - 1
				if i >= *serveCalls && !killing.Load() {
					return
				}
				one().postCall(ctx, i)
				text := one().readResult(ctx, i)
				mu.Lock()
				texts[i] = text
				mu.Unlock()
			}
		})
	}
	callers.Wait()
	<-killer
	up()
	for i, text := range texts {
		for _, s := range all {
			if again := s.readResult(ctx, i); again != text {
				t.Errorf("call %d: %q at first, %q later", i, text, again)
			}
		}
	}
	t.Logf("%d calls, %d times kill -9, %d runtimes", len(texts), *serveKills, len(all))
}

// makeCall makes call i and returns its result.
func (s *served) makeCall(ctx context.Context, i int) string {
	s.postCall(ctx, i)
	return s.readResult(ctx, i)
}

// postCall posts call i until it is accepted.
func (s *served) postCall(ctx context.Context, i int) {
	body := fmt.Sprintf(`{"group_id":"t%d","id":"c%d","operation":"echo","arguments":{"text":"hello %d"}}`, i%10, i, i)
	if i%3 == 0 {
		body = fmt.Sprintf(`{"group_id":"t%d","id":"c%d","operation":"sleep","arguments":{"ms":%d}}`, i%10, i, 100+i%400)
	}
	s.request(ctx, "POST", "/calls", body, http.StatusAccepted)
}

func (s *served) readResult(ctx context.Context, i int) string {
	_, text := s.request(ctx, "GET", fmt.Sprintf("/calls/t%d/c%d?wait=20s", i%10, i), "", http.StatusOK)
	var r apiResult
	if err := json.Unmarshal(text, &r); err != nil {
		s.t.Errorf("call %d: %v: %s", i, err, text)
	}
	if !r.OK || r.Cause != "tool_result" || i%3 != 0 && r.Text != fmt.Sprint("hello ", i) {
		s.t.Errorf("call %d: %+v", i, r)
	}
	return r.Text
}
