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
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// older stands for programs of an MCP server that does not know the first request of newer versions.
type older struct {
	t      *testing.T
	dies   bool // of that request; otherwise it is silent, and keeps running when its input is closed
	starts []time.Time
}

// begin starts a program. It answers only the initialize of its version.
func (o *older) begin(*Server, string, string) (*process, error) {
	o.starts = append(o.starts, time.Now())
	in, write := io.Pipe()
	read, out := io.Pipe()
	p := &process{in: write, out: read, errors: new(tail), ended: make(chan struct{}), why: errors.New("it has ended")}
	end := func() {
		select {
		case <-p.ended:
		default:
			out.Close()
			close(p.ended)
		}
	}
	p.terminate, p.kill = func() {}, end
	go func() {
		lines := bufio.NewReader(in)
		first, err := lines.ReadBytes('\n')
		switch {
		case bytes.Contains(first, []byte(`"method":"initialize"`)):
			server := mcp.NewServer(&mcp.Implementation{Name: "older", Version: "1"}, &mcp.ServerOptions{SupportedProtocolVersions: []string{legacy}})
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

// TestMB24_OlderProgram has programs that die of the first request of newer versions, or do not answer it. The test fails if
// dialing takes too long, if a known program is asked again each time, or if a changed program is not asked again.
func TestMB24_OlderProgram(t *testing.T) {
	for _, dies := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			folder := t.TempDir()
			o := &older{t: t, dies: dies}
			path := filepath.Join(folder, "program")
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			opened := func() *member {
				m := &member{server: &Server{Name: "s", Command: []string{"program"}}, bounds: Options{}.withDefaults().Bounds, log: slog.New(slog.DiscardHandler), path: path, folder: folder, starter: o.begin}
				m.ctx, m.stop = context.WithCancel(t.Context())
				if l := m.recall(); l != nil {
					m.version, m.greeted = l.Version, l.Program
				}
				return m
			}
			dial := func(m *member, starts int) {
				t.Helper()
				began, before := time.Now(), len(o.starts)
				s, err := m.newLink("").dial(0)
				if err != nil {
					t.Fatal(err)
				}
				if n := len(o.starts) - before; n != starts || o.starts[len(o.starts)-1].Sub(began) > 4*time.Second {
					t.Errorf("dies %v: %d starts, the last after %v", dies, n, o.starts[len(o.starts)-1].Sub(began))
				}
				if v := s.cs.InitializeResult().ProtocolVersion; v != legacy {
					t.Errorf("it speaks %s", v)
				}
				_ = s.cs.Close()
				m.keep(new(listing))
			}
			m := opened()
			dial(m, 2)
			dial(m, 1)
			m.stop()
			m.tasks.Wait()
			m = opened() // as in the next process
			dial(m, 1)
			if err := os.Chtimes(path, time.Now(), time.Now()); err != nil {
				t.Fatal(err)
			}
			dial(m, 2)
			m.stop()
			m.tasks.Wait()
		})
	}
}
