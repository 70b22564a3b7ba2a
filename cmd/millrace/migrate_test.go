package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/follow"
)

var migrateKills = flag.Int("migrate.kills", 10, "kill -9 of source or destination by TestMigrateKilled, one in each migration")

// A movingTool is a pair of tool servers that can move sessions to each other.
type movingTool struct {
	t     *testing.T
	bases [2]string

	mu      sync.Mutex
	owner   map[string]string // by session: the base URL of the server that owns it
	invoked map[agentproto.CallKey]string
}

func newMovingTool(t *testing.T) *movingTool {
	m := &movingTool{t: t, owner: map[string]string{}, invoked: map[agentproto.CallKey]string{}}
	for i := range m.bases {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.serve("http://"+r.Host, w, r) }))
		t.Cleanup(s.Close)
		m.bases[i] = s.URL
	}
	return m
}

func (m *movingTool) serve(base string, w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	m.mu.Lock()
	defer m.mu.Unlock()
	switch r.URL.Path {
	case "/.well-known/rap-toolset":
		fmt.Fprintf(w, `{"name":"moving","endpoint":"%s/invoke","needsMigration":true,"tools":[{"name":"late","description":"d","inputSchema":{}}]}`, base)
	case "/invoke":
		inv, err := agentproto.DecodeInvocation(body, agentproto.Limits{})
		if err != nil {
			m.t.Error(err)
			return
		}
		m.invoked[inv.Key()] = inv.CallbackURL
		m.owner[inv.GroupID] = base
	case "/migrate":
		move, err := agentproto.DecodeMigrate(body, agentproto.Limits{})
		if err != nil {
			m.t.Error(err)
			return
		}
		if m.owner[move.SessionID] == base {
			m.owner[move.SessionID] = move.DestinationURL
		}
	}
}

// post posts a result until it is accepted.
func (m *movingTool) post(ctx context.Context, key agentproto.CallKey) {
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		m.mu.Lock()
		to := m.invoked[key]
		m.mu.Unlock()
		if to != "" {
			text := fmt.Sprintf(`{"type":"tool_result","group_id":%q,"id":%q,"text":"of %s"}`, key.GroupID, key.ID, key.ID)
			if resp, err := http.Post(to, "application/json", strings.NewReader(text)); err == nil {
				resp.Body.Close()
				if resp.StatusCode == http.StatusOK {
					return
				}
			}
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			m.t.Errorf("%v: no result is taken in", key)
			return
		}
	}
}

// TestMigrateKilled kills the source or the destination at a random moment of a migration, while
// a result arrives. The migration is requested until it is done. The session is then at one host,
// with one result for each call and with the state of the tool server.
func TestMigrateKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := filepath.Join(dir, "script.json")
	text := `[{"calls":[{"id":"a","operation":"late","arguments":{}},{"id":"b","operation":"late","arguments":{}}]},{"text":"all done"}]`
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	tool := newMovingTool(t)
	host := func(i int) *served {
		return serveRuntime(t, filepath.Join(dir, fmt.Sprint(i)), tool.bases[i:i+1], "--model", "script:"+script, "--migration-key", filepath.Join(dir, "shared.key"))
	}
	source := host(0)
	ctx, cancel := context.WithTimeout(t.Context(), patience+time.Duration(*migrateKills)*10*time.Second)
	defer cancel()
	up := func(s *served) { s.request(ctx, "GET", "/calls/none/none", "", http.StatusNotFound) }
	up(source)
	destination := host(1)
	up(destination)
	to := "http://" + destination.listen()
	killed, refused := map[string]int{}, 0
	for n := range *migrateKills {
		id := fmt.Sprintf("s%d", n)
		keyA, keyB := agentproto.CallKey{GroupID: id, ID: "a"}, agentproto.CallKey{GroupID: id, ID: "b"}
		source.request(ctx, "POST", "/sessions", fmt.Sprintf(`{"id":%q}`, id), http.StatusCreated)
		source.request(ctx, "POST", "/threads/"+id+"/messages", `{"text":"go","key":"go"}`, http.StatusAccepted)
		source.request(ctx, "GET", "/threads/"+id+"/messages?from=2&wait=10s", "", http.StatusOK)
		for tool.isWaiting(keyA) || tool.isWaiting(keyB) {
			source.request(ctx, "GET", "/threads/"+id+"/messages?from=9&wait=50ms", "", http.StatusOK)
		}
		victim, name := source, "source"
		if n%2 == 1 {
			victim, name = destination, "destination"
		}
		var others sync.WaitGroup
		others.Go(func() { tool.post(ctx, keyA) })
		others.Go(func() {
			<-time.After(time.Duration(rand.IntN(60)) * time.Millisecond)
			victim.kill()
			victim.start()
			killed[name]++
		})
		for moved := false; !moved && ctx.Err() == nil; {
			out, err := millrace(t, "migrate", id, "--to", to, "--api", source.api, "--state", source.state).CombinedOutput()
			moved = err == nil || strings.Contains(string(out), "lives at")
			if !moved {
				refused++
				select {
				case <-time.After(50 * time.Millisecond):
				case <-ctx.Done():
				}
			}
		}
		others.Wait()
		up(source)
		up(destination)
		tool.post(ctx, keyA) // repeated, as by a tool that has not seen the answer
		tool.post(ctx, keyB)
		h := ""
		for !strings.Contains(h, "all done") && ctx.Err() == nil {
			_, body := destination.request(ctx, "GET", "/threads/"+id+"/messages?wait=1s", "", http.StatusOK)
			h = string(body)
		}
		var messages []follow.Message
		if err := json.Unmarshal([]byte(h), &messages); err != nil {
			t.Fatalf("%s: %v: %s", id, err, h)
		}
		results := map[string]int{}
		for _, m := range messages {
			if m.Kind == "result" {
				results[m.ID]++
			}
		}
		if len(results) != 2 || results["a"] != 1 || results["b"] != 1 {
			t.Errorf("%s: results %v in %s", id, results, h)
		}
		source.request(ctx, "POST", "/threads/"+id+"/messages", `{"text":"still there?"}`, http.StatusGone)
		if at := tool.at(id); at != tool.bases[1] {
			t.Errorf("%s: the tool server's state is at %s, not at %s", id, at, tool.bases[1])
		}
	}
	t.Logf("%d sessions moved, killed %v, %d times asked again", *migrateKills, killed, refused)
}

func (m *movingTool) isWaiting(key agentproto.CallKey) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.invoked[key] == ""
}

func (m *movingTool) at(session string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.owner[session]
}

// listen returns the address of the callback endpoint.
func (s *served) listen() string {
	for i, a := range s.args {
		if a == "--listen" {
			return s.args[i+1]
		}
	}
	return ""
}
