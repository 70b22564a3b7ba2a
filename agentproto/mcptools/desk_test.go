package mcptools_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/inprocess"
	"github.com/millrace/millrace/agentproto/mcptools"
)

// patience is how long a test waits for something that must happen. It is generous, because a slow
// machine may take long to start a process.
const patience = 2 * time.Minute

// A desk is a runtime that makes calls and receives callbacks.
type desk struct {
	t        *testing.T
	set      *mcptools.Set
	notes    string // the file of the peer
	messages chan agentproto.Callback
	client   *http.Client
}

// newDesk opens a set with one peer, named p.
func newDesk(t *testing.T, change func(*mcptools.Options)) *desk {
	t.Helper()
	d := &desk{t: t, notes: filepath.Join(t.TempDir(), "notes"), messages: make(chan agentproto.Callback, 1000)}
	o := mcptools.Options{Servers: []mcptools.Server{d.peer("p")}, Start: patience, Callbacks: d, Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&o)
	}
	set, err := mcptools.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	d.set, d.client = set, &http.Client{Transport: &inprocess.Transport{Handlers: set.Local()}}
	t.Cleanup(func() {
		ctx, stop := context.WithCancel(context.Background())
		stop()
		_ = set.Close(ctx) // calls may be in progress
	})
	return d
}

// peer returns a server that runs the peer of peer_test.go.
func (d *desk) peer(name string) mcptools.Server {
	self, err := os.Executable()
	if err != nil {
		d.t.Fatal(err)
	}
	return mcptools.Server{Name: name, Command: []string{self, "-test.run=^$"}, Env: map[string]string{peerEnv: d.notes}}
}

// ServeHTTP receives a callback.
func (d *desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		var m agentproto.Callback
		if m, err = agentproto.DecodeCallback(body, agentproto.Limits{Bytes: 16 << 20}); err == nil {
			d.messages <- m
			return
		}
	}
	d.t.Errorf("a message cannot be read: %v: %.200s", err, body)
}

func (d *desk) manifest() *agentproto.Manifest {
	d.t.Helper()
	res, err := d.client.Get(mcptools.Base("p") + "/.well-known/rap-toolset")
	if err != nil {
		d.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		d.t.Fatalf("the manifest: %d %s, %v", res.StatusCode, body, err)
	}
	m, err := agentproto.DecodeManifest(body, agentproto.Limits{})
	if err != nil {
		d.t.Fatal(err)
	}
	return m
}

// post posts a message to the tool server.
func (d *desk) post(url, body string) {
	d.t.Helper()
	res, err := d.client.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		d.t.Fatalf("%s: %d", url, res.StatusCode)
	}
}

// call makes a call in a thread.
func (d *desk) call(thread, id, tool, args string) {
	d.t.Helper()
	d.post(mcptools.Base("p")+"/invoke", invocation(thread, id, tool, args))
}

func invocation(thread, id, tool, args string) string {
	body, _ := json.Marshal(map[string]any{
		"operation": "p_" + tool, "arguments": json.RawMessage(args), "id": id, "group_id": thread, "callback_url": "http://127.0.0.1:7340/cb/" + thread + "/" + id,
	})
	return string(bytes.TrimSpace(body))
}

// next returns the next message that is not a view.
func (d *desk) next() agentproto.Callback {
	d.t.Helper()
	for {
		select {
		case m := <-d.messages:
			if m.Type() != agentproto.TypeViewUpdate {
				return m
			}
		case <-time.After(patience):
			d.t.Fatal("nothing comes")
		}
	}
}

func (d *desk) result() *agentproto.ToolResult {
	d.t.Helper()
	m := d.next()
	r, ok := m.(*agentproto.ToolResult)
	if !ok {
		d.t.Fatalf("%+v is no result", m)
	}
	return r
}

// want checks the text of the next result.
func (d *desk) want(what, text string) {
	d.t.Helper()
	if r := d.result(); r.String() != text {
		d.t.Errorf("%s: %q, want %q", what, r.String(), text)
	}
}

// until waits until holds returns true.
func (d *desk) until(what string, holds func() bool) {
	d.t.Helper()
	for end := time.Now().Add(patience); !holds(); {
		<-time.After(5 * time.Millisecond)
		if time.Now().After(end) {
			d.t.Fatalf("it is not so: %s", what)
		}
	}
}

// noted returns how many times the peer noted a line.
func (d *desk) noted(line string) (n int) {
	data, _ := os.ReadFile(d.notes)
	for l := range strings.Lines(string(data)) {
		if strings.TrimSuffix(l, "\n") == line {
			n++
		}
	}
	return n
}
