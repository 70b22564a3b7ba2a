package toolserver_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/toolserver"
	"github.com/millrace/millrace/internal/freeport"
)

// These variables turn the test binary into an instance that listens at an address, with its
// state in a folder.
const (
	instanceEnv      = "MILLRACE_TEST_TOOLSERVER_INSTANCE"
	instanceStateEnv = "MILLRACE_TEST_TOOLSERVER_INSTANCE_STATE"
)

// serveInstance runs a process that is killed while a session moves.
func serveInstance(at, folder string) error {
	l, err := net.Listen("tcp", at)
	if err != nil {
		return err
	}
	server, err := toolserver.Open(toolserver.Options{
		Name: "mortal", PublicURL: "http://" + at, State: folder,
		Migrator: toolserver.OwnState{}, MigrationKey: toolserver.NewSecret(migrationKey), MigrationDestinations: []string{"http://127.0.0.1:*"},
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		return err
	}
	addCount(server)
	if err := server.Start(); err != nil {
		return err
	}
	fmt.Println(at)
	return http.Serve(l, server)
}

// An instance is one of two processes between which a session moves.
type instance struct {
	t          *testing.T
	at, folder string
	cmd        *exec.Cmd
}

func newInstance(t *testing.T) *instance {
	at, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	return &instance{t: t, at: at, folder: t.TempDir()}
}

func (i *instance) start() {
	i.t.Helper()
	self, err := os.Executable()
	if err != nil {
		i.t.Fatal(err)
	}
	i.cmd = exec.Command(self)
	i.cmd.Env = append(os.Environ(), instanceEnv+"="+i.at, instanceStateEnv+"="+i.folder)
	i.cmd.Stderr = os.Stderr
	out, err := i.cmd.StdoutPipe()
	if err != nil {
		i.t.Fatal(err)
	}
	if err := i.cmd.Start(); err != nil {
		i.t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		i.t.Fatalf("the instance did not start: %v", err)
	}
}

// kill kills the process with SIGKILL.
func (i *instance) kill() {
	i.cmd.Process.Kill()
	i.cmd.Wait()
}

// TestMigrationKilled kills the source or the destination while a session moves, and repeats
// /migrate until the answer is 200. Every event of the session's subscription arrives in order
// and from only one side: each has one webhook-id.
func TestMigrationKilled(t *testing.T) {
	t.Parallel()
	for round := range 6 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			var mu sync.Mutex
			ids := make(map[string]map[string]bool) // by event
			var order []string
			final, begun := make(chan struct{}), make(chan struct{})
			var once, first sync.Once
			rt := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				msg, err := agentproto.DecodeCallback(body, agentproto.Limits{})
				e, ok := msg.(*agentproto.SubscriptionEvent)
				if err != nil || !ok {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				if ids[e.Text] == nil {
					ids[e.Text] = make(map[string]bool)
					order = append(order, e.Text)
				}
				ids[e.Text][r.Header.Get("webhook-id")] = true
				if len(order) == 5 {
					first.Do(func() { close(begun) })
				}
				if e.Final {
					once.Do(func() { close(final) })
				}
			}))
			defer rt.Close()
			src, dst := newInstance(t), newInstance(t)
			src.start()
			dst.start()
			defer src.kill()
			defer dst.kill()
			post := func(at, path, body string) (int, string) {
				resp, err := http.Post("http://"+at+path, "application/json", strings.NewReader(body))
				if err != nil {
					return 0, ""
				}
				defer resp.Body.Close()
				text, _ := io.ReadAll(resp.Body)
				return resp.StatusCode, string(text)
			}
			call := func(id string) string {
				return fmt.Sprintf(`{"operation":"count","arguments":{"ms":20},"id":%q,"group_id":"s","callback_url":"%s/%s"}`, id, rt.URL, id)
			}
			if code, text := post(src.at, "/invoke", call("c1")); code != 200 {
				t.Fatalf("invoke: %d %s", code, text)
			}
			<-begun
			move := fmt.Sprintf(`{"session_id":"s","destination_url":"http://%s"}`, dst.at)
			asked := make(chan int, 1)
			go func() { code, _ := post(src.at, "/migrate", move); asked <- code }()
			<-time.After(time.Duration(rand.IntN(12_000)) * time.Microsecond)
			victim := []*instance{src, dst}[round%2]
			victim.kill()
			t.Logf("killed %d; /migrate answered %d", round%2, <-asked)
			victim.start()
			deadline := time.After(60 * time.Second)
			for code := 0; code != 200; {
				var text string
				if code, text = post(src.at, "/migrate", move); code == 200 {
					break
				}
				select {
				case <-time.After(200 * time.Millisecond):
				case <-deadline:
					t.Fatalf("/migrate is still answered %d %s", code, text)
				}
			}
			select {
			case <-final:
			case <-deadline:
				t.Fatalf("the last event did not come: %v", order)
			}
			mu.Lock()
			defer mu.Unlock()
			for n := 1; n <= countTo; n++ {
				if len(order) < n || order[n-1] != fmt.Sprint(n) || len(ids[fmt.Sprint(n)]) != 1 {
					t.Fatalf("events %v, message ids %v", order, ids)
				}
			}
		})
	}
}
