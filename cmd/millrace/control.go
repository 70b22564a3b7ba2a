package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/millrace/millrace/agentproto/conform"
	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/natslog"
	"github.com/millrace/millrace/internal/edge"
)

const controlUsage = `usage: millrace control CONFIG

Runs the runtime under the control of a conformance run, which plays its tool servers,
its model and its user: see doc/control.md. CONFIG is a JSON file. It prints one line
that says where the control interface is and with which token, and runs until it is killed.
The control interface is for tests, on this host.

`

func control(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("control", flag.ContinueOnError)
	fs.Usage = func() { fmt.Fprint(fs.Output(), controlUsage); fs.PrintDefaults() }
	if err := parse(fs, args); err != nil {
		return err
	}
	if fs.NArg() != 1 {
		return misused(fs, "it takes one argument, the file with the configuration")
	}
	text, err := os.ReadFile(fs.Arg(0))
	if err != nil {
		return err
	}
	var config conform.RuntimeConfig
	if err := json.Unmarshal(text, &config, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("%s: %w", fs.Arg(0), err)
	}
	p := newPuppet()
	p.ahead.Store(int64(time.Duration(config.ClockAheadMS) * time.Millisecond))
	opts, err := controlled(&config, p.now)
	if err != nil {
		return err
	}
	opts.Model, opts.Surface, p.migrates = p, p, opts.MigrationKey != nil
	if p.rt, err = host.Start(context.WithoutCancel(ctx), opts); err != nil {
		return err
	}
	serving, cancel := untilEnded(ctx, p.rt)
	defer cancel()
	return ended(ctx, p.rt, p.serve(serving))
}

// controlled returns the options of a configuration.
func controlled(c *conform.RuntimeConfig, now func() time.Time) (host.Options, error) {
	logger := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	opts := host.Options{
		ListenAddr: c.CallbackListen, AllowOrigins: c.AllowOrigins, AskStatus: c.AskAlive, Logger: logger, Timeouts: timeoutsOf(c.TimeoutsMS),
		Bounds: host.Bounds{Subscriptions: c.Limits.Subscriptions, Views: c.Limits.Views},
	}
	opts.Limits.Bytes = c.Limits.BodyBytes
	if c.MigrateSecret != "" { // sessions are received at the callback address
		key := sha256.Sum256([]byte(c.MigrateSecret))
		opts.MigrationKey = key[:]
	}
	for _, t := range c.Toolsets {
		opts.Toolsets = append(opts.Toolsets, t.URL)
	}
	if c.State == "" {
		return opts, nil
	}
	secret, err := callbackKey(c.State, false)
	if err != nil {
		return opts, err
	}
	if opts.Sealer, err = host.SealerOf(secret); err != nil {
		return opts, err
	}
	opts.State = &durable.Options{Name: "control", Log: natslog.Embedded(filepath.Join(c.State, "history")), Now: now, Logger: logger}
	return opts, nil
}

func timeoutsOf(t conform.RuntimeTimeouts) host.Timeouts {
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	out := host.Timeouts{
		Connect: ms(t.Connect), Ack: ms(t.Ack), Dispatch: ms(t.Dispatch), Discovery: ms(t.Discovery),
		Call: ms(t.Call), LongCall: ms(t.LongCall), OAuth: ms(t.OAuth), Choice: ms(t.Choice), Answer: ms(t.Answer),
		Notify: ms(t.Notify), Callback: ms(t.Callback), Migrate: ms(t.Migrate), ReadHeader: ms(t.ReadHeader), Read: ms(t.Read), Idle: ms(t.Read),
	}
	for _, pause := range t.Retry {
		out.Retry = append(out.Retry, ms(pause))
	}
	return out
}

// serve serves the control interface until ctx ends.
func (p *puppet) serve(ctx context.Context) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	handle := func(pattern string, do func(r *http.Request) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			out, err := do(r)
			switch {
			case err == nil:
				answer(w, http.StatusOK, out)
			case errors.Is(err, conversation.ErrUnknownThread):
				answer(w, http.StatusNotFound, problem{err.Error()})
			case errors.Is(err, host.ErrNoMigrationKey):
				answer(w, http.StatusNotImplemented, problem{err.Error()})
			case errors.Is(err, host.ErrNotMoved):
				answer(w, http.StatusBadGateway, problem{err.Error()})
			default:
				answer(w, http.StatusConflict, problem{err.Error()})
			}
		})
	}
	handle("POST /sessions", p.open)
	handle("POST /sessions/{id}/migrate", p.migrate)
	handle("GET /threads/{id}", p.thread)
	handle("DELETE /threads/{id}", func(r *http.Request) (any, error) { return done, p.of(r).Close(r.Context()) })
	handle("POST /threads/{id}/children", p.child)
	handle("POST /threads/{id}/calls", p.calls)
	handle("POST /threads/{id}/text", p.text)
	handle("POST /threads/{id}/interrupt", func(r *http.Request) (any, error) { return done, p.of(r).Interrupt(r.Context()) })
	handle("POST /threads/{id}/answers", p.answer)
	handle("PUT /clock", p.setClock)
	handle("GET /stats", func(*http.Request) (any, error) { return statsOf(p.rt.Stats()), nil })

	takes, lacks := p.rt.PublicURL(), []string(nil)
	if !p.migrates {
		takes, lacks = "", []string{conform.PartMigrate}
	}
	token := newToken()
	line, err := json.Marshal(conform.Hello{
		Control: "http://" + listener.Addr().String(), Token: token, EventTool: conversation.EventTool, Migrate: takes, Lacks: lacks,
	})
	if err != nil {
		return err
	}
	guard := edge.Policy{Token: edge.NewToken(token), JSON: true}
	server := edge.New(edge.Guard(guard, mux), edge.Options{Body: maxLine, Write: maxWait})
	defer context.AfterFunc(ctx, func() { server.Close() })()
	fmt.Fprintf(stdout, "%s\n", line)
	return server.Serve(listener)
}

// done is the answer of requests that return nothing.
var done = struct{}{}

// read decodes the body of a control request.
func read(r *http.Request, into any) error {
	if err := json.UnmarshalRead(r.Body, into); err != nil {
		return fmt.Errorf("not what %s %s takes: %w", r.Method, r.URL.Path, err)
	}
	return nil
}

func statsOf(s host.Stats) conform.RuntimeStats {
	return conform.RuntimeStats{
		Results: s.Results, Failures: s.Failures, Duplicates: s.Duplicates, Late: s.Late,
		Dropped: s.Unsubscribed, Refused: s.Malformed + s.Forged, Busy: s.Busy,
	}
}
