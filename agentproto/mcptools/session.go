package mcptools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/millrace/millrace/agentproto/internal/mcptasks"
)

// A session is one connection to an MCP server, with its program if there is one.
type session struct {
	cs      *mcp.ClientSession
	process *process      // nil for HTTP
	ended   chan struct{} // closed when the connection has ended
	why     error         // set before ended is closed

	mu    sync.Mutex
	calls map[string]*attempt // by progress token

	completions completions

	subscribing sync.Mutex            // held to subscribe or unsubscribe
	watches     map[string][]*updates // by URI; guarded by mu, like stale
	stale       map[string]bool       // URIs whose updates have stopped
}

// connectTime is how long a server may take to complete the handshake. A program may have to be
// fetched first.
const connectTime = 2 * time.Minute

// endTime is how long after its pipes close a program may end.
const endTime = 200 * time.Millisecond

// open opens a connection.
func (l *link) open(ctx context.Context, version string, begin func(*Server, string, string) (*process, error)) (*session, error) {
	m := l.m
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	s := &session{ended: make(chan struct{}), calls: make(map[string]*attempt)}
	var transport mcp.Transport
	if begin != nil {
		p, err := l.begin(begin)
		if err != nil {
			return nil, fmt.Errorf("%s cannot be started: %w", m.server.Name, err)
		}
		l.remember(p)
		p.silent.Store(true)
		s.process = p
		transport = mcptasks.Transport{Transport: &mcp.IOTransport{Reader: p.out, Writer: &input{p}, MaxLineLength: int(m.bounds.Result)}}
	} else {
		transport = &mcp.StreamableClientTransport{Endpoint: m.server.URL, HTTPClient: l.http, MaxEventSize: int(m.bounds.Result)}
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "millrace", Version: m.clientVersion}, &mcp.ClientOptions{
		Logger:                      slog.New(slog.DiscardHandler), // the SDK logs what servers say
		Capabilities:                capabilities(),
		MultiRoundTrip:              &mcp.MultiRoundTripOptions{Disabled: true}, // a dialog survives this process
		ElicitationHandler:          s.elicit,
		ElicitationCompleteHandler:  s.completed,
		ProgressNotificationHandler: s.progress,
		ResourceUpdatedHandler:      s.updated,
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {
			if l == m.shared || !m.server.PerUser { // the tools of one user's program are for nobody else
				m.changed(false)
			}
		},
	})
	client.AddReceivingMiddleware(m.receive)
	err := mcptasks.Declare(client)
	var cs *mcp.ClientSession
	if err == nil {
		cs, err = client.Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	}
	if err != nil {
		if s.process != nil {
			ended := s.process.endsWithin(endTime)
			s.process.stop()
			if ended || errors.Is(err, io.EOF) {
				err = s.process.why
			}
		}
		return nil, fmt.Errorf("%s does not speak MCP: %w", m.server.Name, err)
	}
	s.cs = cs
	if s.process != nil {
		s.process.silent.Store(false)
	}
	m.tasks.Go(func() { l.watch(s) })
	return s, nil
}

// capabilities returns the client capabilities of this program.
func capabilities() *mcp.ClientCapabilities {
	c := &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{}}}
	c.AddExtension(mcptasks.Extension, nil)
	return c
}

// watch waits for the end of a connection, and records its reason. It closes the connection when the member ends.
func (l *link) watch(s *session) {
	m := l.m
	defer context.AfterFunc(m.ctx, func() { _ = s.cs.Close() })() // the error only says how the program has ended
	over := make(chan error, 1)
	go func() { over <- s.cs.Wait() }()
	var err error
	if s.process != nil {
		select {
		case err = <-over:
			s.process.stop()
		case <-s.process.ended:
		}
		if err == nil || errors.Is(err, io.EOF) {
			err = s.process.why
		}
		if !errors.Is(err, s.process.why) {
			err = fmt.Errorf("the connection was closed: %w", err)
		}
	} else if err = <-over; err == nil {
		err = errors.New("the connection was closed")
	}
	s.why = err
	if s.process != nil && l.folder != "" {
		_ = os.Remove(filepath.Join(l.folder, processFile)) // before the next one is started
	}
	close(s.ended)
	s.endUpdates(errStreamEnded)
	m.mu.Lock()
	defer m.mu.Unlock()
	if l.live == s {
		l.live = nil
		if !m.closed {
			l.note(err)
		}
	}
}

// An input is the standard input of a program. Closing it ends the program.
type input struct{ p *process }

func (i *input) Write(b []byte) (int, error) { return i.p.in.Write(b) }

// Close implements [io.Closer]. It does not wait: the SDK calls it while it holds a lock.
func (i *input) Close() error {
	go i.p.stop()
	return nil
}

// begin starts the program of the link.
func (l *link) begin(start func(s *Server, path, dir string) (*process, error)) (*process, error) {
	server := l.m.server
	if server.PerUser {
		if err := os.MkdirAll(l.dir, 0o700); err != nil {
			return nil, err
		}
		own := *server
		own.Env = map[string]string{"HOME": l.dir}
		maps.Copy(own.Env, server.Env)
		server = &own
	}
	return start(server, l.m.path, l.dir)
}

// remember records the program on disk, so that the next process ends it if this one is killed and the
// program is left running.
func (l *link) remember(p *process) {
	pid := p.pid
	if l.folder == "" {
		return
	}
	data, err := json.Marshal(left{pid, identity(pid)})
	if err == nil {
		err = os.WriteFile(filepath.Join(l.folder, processFile), data, 0o600)
	}
	if err != nil {
		l.m.log.Warn("the number of a program cannot be kept", "server", l.m.server.Name, "error", err)
	}
}

const processFile = "process.json"

// A left process is one that an earlier process may have left running.
type left struct {
	PID      int    `json:"pid"`
	Identity string `json:"identity"`
}

// endLeft ends a program that an earlier process has left running, if the number still belongs to it.
func endLeft(folder string) {
	data, err := os.ReadFile(filepath.Join(folder, processFile))
	var l left
	if err == nil && json.Unmarshal(data, &l) == nil && l.PID > 1 && l.Identity != "" && identity(l.PID) == l.Identity {
		killLeft(l.PID)
	}
	_ = os.Remove(filepath.Join(folder, processFile))
}
