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
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/millrace/millrace/internal/freeport"
)

var (
	serveCalls = flag.Int("serve.calls", 300, "calls made by TestServeKilled")
	serveKills = flag.Int("serve.kills", 3, "kill -9 of the runtime by TestServeKilled, one a second")
)

// A served is a runtime process that is started again on the same state and addresses.
type served struct {
	t     *testing.T
	args  []string
	state string
	// tokenFile has the token of the API; empty means that it is in the state folder.
	tokenFile string
	api       string
	cmd       *exec.Cmd
	at        *netHost // where it runs; nil is here
}

func serveRuntime(t *testing.T, state string, tools []string, more ...string) *served {
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
func freeAddress(t *testing.T) string {
	at, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func (s *served) start() {
	s.cmd = millrace(s.t, s.args...)
	s.cmd.Stderr = io.Discard
	if err := s.at.within(s.cmd.Start); err != nil {
		s.t.Fatal(err)
	}
}

// kill is kill -9.
func (s *served) kill() {
	s.cmd.Process.Kill()
	s.cmd.Wait()
}

// request asks until there is an answer of one of these statuses. That there is no such call
// is an error, unless it is one of them: whoever asks for a call has made it before.
func (s *served) request(ctx context.Context, method, path, body string, statuses ...int) (int, []byte) {
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
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
			for _, status := range statuses {
				if err == nil && resp.StatusCode == status {
					return status, text
				}
			}
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			s.t.Errorf("%s %s: no answer: %v", method, path, ctx.Err())
			return 0, nil
		}
	}
}

// TestServeKilled kills the runtime again and again while calls are made and results
// come back. Each call that was accepted has exactly one result, the same whenever it is
// read, and it is the tool's own.
func TestServeKilled(t *testing.T) {
	t.Parallel()
	_, tools := startTool(t)
	s := serveRuntime(t, t.TempDir(), tools)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute+time.Duration(*serveCalls)*20*time.Millisecond)
	defer cancel()
	s.request(ctx, "GET", "/calls/none/none", "", http.StatusNotFound) // it is up

	texts := make([]string, *serveCalls)
	lane := make(chan int)
	var callers sync.WaitGroup
	for range 16 {
		callers.Go(func() {
			for i := range lane {
				texts[i] = s.makeCall(ctx, i)
			}
		})
	}
	killer := make(chan struct{})
	go func() {
		defer close(killer)
		for range *serveKills {
			select {
			case <-time.After(time.Duration(500+rand.IntN(1000)) * time.Millisecond):
			case <-ctx.Done():
				return
			}
			s.kill()
			s.start()
		}
	}()
	for i := range *serveCalls {
		lane <- i
	}
	close(lane)
	callers.Wait()
	<-killer
	s.request(ctx, "GET", "/calls/none/none", "", http.StatusNotFound)
	for i, text := range texts {
		if again := s.readResult(ctx, i); again != text {
			t.Errorf("call %d: %q at first, %q later", i, text, again)
		}
	}
}

// TestServeShared lets two runtimes share their calls over a NATS server. A call that was
// made at one is read at the other, and whichever of them is killed, the one that is left
// goes on: one of the two owned the calls.
func TestServeShared(t *testing.T) {
	t.Parallel()
	_, tools := startTool(t)
	nats, err := natsserver.NewServer(&natsserver.Options{
		Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(),
		SyncAlways: true, NoLog: true, NoSigs: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	nats.Start()
	defer nats.Shutdown()
	if !nats.ReadyForConnections(10 * time.Second) {
		t.Fatal("the NATS server did not start")
	}
	share := []string{"--nats", nats.ClientURL(), "--replicas", "1", "--assume-durable"}
	state := t.TempDir() // which has the key, and nothing else of worth
	both := []*served{serveRuntime(t, state, tools, share...), serveRuntime(t, state, tools, share...)}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i := range 10 {
		made, read := both[i%2], both[(i+1)%2]
		if first, second := made.makeCall(ctx, i), read.readResult(ctx, i); first != second {
			t.Errorf("call %d: %q where it was made, %q elsewhere", i, first, second)
		}
	}
	for i, killed := range both {
		slow := fmt.Sprintf(`{"group_id":"t%d","id":"c%d","operation":"sleep","arguments":{"ms":1500}}`, i, 30*(i+1)+i)
		both[1-i].request(ctx, "POST", "/calls", slow, http.StatusAccepted)
		killed.kill()
		both[1-i].readSlow(ctx, fmt.Sprintf("/calls/t%d/c%d", i, 30*(i+1)+i))
		killed.start()
		killed.request(ctx, "GET", "/calls/none/none", "", http.StatusNotFound)
	}
}

func (s *served) readSlow(ctx context.Context, path string) {
	_, text := s.request(ctx, "GET", path+"?wait=20s", "", http.StatusOK)
	var r apiResult
	if err := json.Unmarshal(text, &r); err != nil || r.Cause != "tool_result" || r.Text != "slept for 1500 ms" {
		s.t.Errorf("%s: %+v, %v", path, r, err)
	}
}

// makeCall makes call i, until it is accepted, and returns its result.
func (s *served) makeCall(ctx context.Context, i int) string {
	body := fmt.Sprintf(`{"group_id":"t%d","id":"c%d","operation":"echo","arguments":{"text":"hello %d"}}`, i%10, i, i)
	if i%3 == 0 {
		body = fmt.Sprintf(`{"group_id":"t%d","id":"c%d","operation":"sleep","arguments":{"ms":%d}}`, i%10, i, 100+i%400)
	}
	// 409 is the answer to a call that was accepted by a process that died before it said so.
	s.request(ctx, "POST", "/calls", body, http.StatusAccepted, http.StatusConflict)
	return s.readResult(ctx, i)
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
