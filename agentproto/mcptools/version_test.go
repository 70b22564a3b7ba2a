package mcptools

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// older stands for programs of an MCP server that may not know the first request of newer versions.
type older struct {
	t      *testing.T
	start  time.Duration // until it reads that request
	newer  bool          // it knows it
	dies   bool          // of that request; otherwise it is silent, and keeps running when its input is closed
	starts []time.Time
	runs   atomic.Int32 // how many run
}

// begin starts a program. If it is not newer, it answers only the initialize of its version.
func (o *older) begin(*Server, string, string) (*process, error) {
	o.starts = append(o.starts, time.Now())
	if n := o.runs.Add(1); n != 1 {
		o.t.Errorf("%d programs run at once", n)
	}
	in, write := io.Pipe()
	read, out := io.Pipe()
	p := &process{in: write, out: read, errors: new(tail), ended: make(chan struct{}), why: errors.New("it has ended")}
	var once sync.Once
	end := func() {
		once.Do(func() {
			out.Close()
			o.runs.Add(-1)
			close(p.ended)
		})
	}
	p.terminate, p.kill = func() {}, end
	go func() {
		select {
		case <-time.After(o.start):
		case <-p.ended:
		}
		lines := bufio.NewReader(in)
		first, err := lines.ReadBytes('\n')
		switch {
		case err == nil && (o.newer || bytes.Contains(first, []byte(`"method":"initialize"`))):
			var versions []string
			if !o.newer {
				versions = []string{legacy}
			}
			server := mcp.NewServer(&mcp.Implementation{Name: "older", Version: "1"}, &mcp.ServerOptions{SupportedProtocolVersions: versions})
			_ = server.Run(o.t.Context(), &mcp.IOTransport{Reader: io.NopCloser(io.MultiReader(bytes.NewReader(first), lines)), Writer: out})
			end()
		case err != nil || o.dies:
			end()
		default:
			_, _ = io.Copy(io.Discard, lines)
		}
	}()
	return p, nil
}

// member returns a member whose server is the program at a path, as a process that begins makes it.
func (o *older) member(path string) *member {
	m := &member{server: &Server{Name: "s", Command: []string{"program"}}, bounds: Options{}.withDefaults().Bounds, log: slog.New(slog.DiscardHandler), path: path, folder: filepath.Dir(path), starter: o.begin}
	m.ctx, m.stop = context.WithCancel(o.t.Context())
	if l := m.recall(); l != nil {
		m.greeting = l.greeting
	}
	return m
}

// dial makes a connection, and checks how often the program is started and which version it is spoken to in. It ends the
// connection.
func (o *older) dial(m *member, starts int, version string, most time.Duration) {
	o.t.Helper()
	began, before := time.Now(), len(o.starts)
	s, err := m.newLink("").dial(0)
	if err != nil {
		o.t.Fatal(err)
	}
	if n := len(o.starts) - before; n != starts || time.Since(began) > most {
		o.t.Errorf("%+v: %d starts, want %d, in %v", o, n, starts, time.Since(began))
	}
	if v := s.cs.InitializeResult().ProtocolVersion; v != version {
		o.t.Errorf("%+v: it speaks %s, want %s", o, v, version)
	}
	_ = s.cs.Close()
	<-s.ended
	m.keep(new(listing))
}

// TestMB24_OlderProgram has programs that die of the first request of newer versions, or do not answer it. The test fails if
// dialing takes too long, if a known program is asked again each time, or if a program is not asked again that has changed or
// was last asked long ago, or in the future.
func TestMB24_OlderProgram(t *testing.T) {
	for _, dies := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			o := &older{t: t, dies: dies}
			path := filepath.Join(t.TempDir(), "program")
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			m := o.member(path)
			o.dial(m, 2, legacy, 4*time.Second)
			o.dial(m, 1, legacy, 0)
			m.stop()
			m.tasks.Wait()
			m = o.member(path) // as in the next process
			o.dial(m, 1, legacy, 0)
			if err := os.Chtimes(path, time.Now(), time.Now()); err != nil {
				t.Fatal(err)
			}
			o.dial(m, 2, legacy, 4*time.Second)
			time.Sleep(legacyTime)
			o.dial(m, 2, legacy, 4*time.Second)
			m.greeting.Found = time.Now().Add(time.Hour) // the clock was set back since
			o.dial(m, 2, legacy, 4*time.Second)
			m.stop()
			m.tasks.Wait()
		})
	}
}

// TestSlowProgram has programs that take long to start. The test fails if one that knows the newer versions is spoken to in an
// older one, or if one that does not is asked again each time.
func TestSlowProgram(t *testing.T) {
	const newest = "2026-07-28"
	for _, o := range []*older{
		{newer: true, start: 2 * time.Second}, {newer: true, start: 4 * time.Second}, {newer: true, start: 15 * time.Second},
		{start: 2 * time.Second}, {start: 15 * time.Second}, {dies: true, start: 4 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			o.t = t
			path := filepath.Join(t.TempDir(), "program")
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			version, starts := legacy, 4
			switch {
			case o.newer && o.start < probeTime:
				version, starts = newest, 1
			case o.newer:
				version, starts = newest, 3
			}
			m := o.member(path)
			o.dial(m, starts, version, 7*o.start)
			o.dial(m, 1, version, o.start)
			m.stop()
			m.tasks.Wait()
			m = o.member(path) // as in the next process
			o.dial(m, 1, version, o.start)
			m.stop()
			m.tasks.Wait()
		})
	}
}
