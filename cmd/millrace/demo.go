package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host"
)

const demoUsage = `usage: millrace demo [flags]

Starts three tool servers as processes of their own, makes some calls, and shows how each of them resolved. Then a conversation is held at one runtime and
moves to another in the middle: two 'millrace serve' with state and tool servers of their
own. The exit status is 0 if and only if every call has exactly one result and it is the
expected one, and the conversation has gone on as if it had not moved.

`

// demoPatience limits the time of the whole demo.
const demoPatience = 40 * time.Second

func demo(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("demo", flag.ContinueOnError)
	fs.Usage = func() { fmt.Fprint(fs.Output(), demoUsage); fs.PrintDefaults() }
	asJSON := fs.Bool("json", false, "print the totals as a JSON object, last")
	verbose := fs.Bool("v", false, "log what the runtime and the tool servers warn of")
	if err := parse(fs, args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return misused(fs, "it takes no arguments: %s", strings.Join(fs.Args(), " "))
	}
	ctx, cancel := context.WithTimeoutCause(ctx, demoPatience, errors.New("the demo took too long"))
	defer cancel()

	logs := io.Discard
	if *verbose {
		logs = stderr
	}
	logger := slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelWarn}))
	var all processes
	two := &hosts{}
	defer func() {
		all.stop()
		two.remove()
	}()
	servers, err := all.startTools(logs)
	if err != nil {
		return err
	}
	if err := two.start(&all, servers, logs); err != nil {
		return err
	}

	d := &demoRun{out: printed, style: styleFor(os.Stdout), calls: make(map[agentproto.CallKey]*taken), resolved: make(chan struct{}, len(scenes))}
	d.rt, err = host.Start(ctx, host.Options{
		Toolsets: servers.urls(), Surface: d, Logger: logger,
		Timeouts: host.Timeouts{
			Ack: 800 * time.Millisecond, Retry: []time.Duration{200 * time.Millisecond}, Dispatch: 3 * time.Second,
			Call: demoLifetime, OAuth: demoLifetime, Choice: demoLifetime,
		},
	})
	if err != nil {
		return err
	}
	for _, p := range d.rt.Problems() {
		return p
	}
	d.intro(servers)
	if err := d.play(ctx); err != nil {
		return err
	}
	stats := d.rt.Stats()
	if err := d.rt.Stop(ctx); err != nil {
		return err
	}
	totals := d.table(stats)
	if err := d.move(ctx, two); err != nil {
		return err
	}
	totals.Session = two.table(d)
	if *asJSON {
		line, err := json.Marshal(totals)
		if err != nil {
			return err
		}
		fmt.Fprintf(stdout, "%s\n", line)
	}
	if !totals.good() {
		return errFailed
	}
	return nil
}

// totals are the figures of the demo.
type totals struct {
	Calls             int    `json:"calls"`
	Results           int    `json:"results"`
	Expected          int    `json:"expected"` // calls with one result, the expected one
	DuplicatesDropped uint64 `json:"duplicates_dropped"`
	LateDropped       uint64 `json:"late_dropped"`

	Session sessionTotals `json:"session"`
}

func (t totals) good() bool {
	return t.Results == t.Calls && t.Expected == t.Calls && t.DuplicatesDropped == wantDuplicates && t.LateDropped == wantLate && t.Session.good()
}

// A demoRun is the session: the conversation that makes the calls, and the user who
// answers prompts.
type demoRun struct {
	rt    *host.Runtime
	out   io.Writer
	style style

	mu       sync.Mutex
	calls    map[agentproto.CallKey]*taken
	order    []*taken
	problems []string
	resolved chan struct{}
	users    sync.WaitGroup // actions of the user that have not finished
}

// taken is a scene that has been started.
type taken struct {
	*scene
	key     agentproto.CallKey
	at      time.Time
	took    time.Duration
	detour  string // the detour the call took, for the table
	results []*agentproto.Resolution
}

// play makes the calls and waits until each has a result and the late answers have
// arrived.
func (d *demoRun) play(ctx context.Context) error {
	results := d.rt.Results(ctx)
	go func() {
		for res := range results {
			d.mu.Lock()
			t := d.calls[res.Key]
			t.results = append(t.results, res)
			if len(t.results) == 1 {
				t.took = time.Since(t.at)
				d.resolved <- struct{}{}
			}
			d.mu.Unlock()
		}
	}()
	for i := range scenes {
		if err := d.take(ctx, &scenes[i]); err != nil {
			return err
		}
	}
	for range scenes {
		select {
		case <-d.resolved:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	d.users.Wait()
	return d.stragglers(ctx)
}

// take makes the call of a scene.
func (d *demoRun) take(ctx context.Context, s *scene) error {
	d.mu.Lock()
	defer d.mu.Unlock() // held until the result and the surface can find the call
	t := &taken{scene: s, at: time.Now()}
	key, err := d.rt.Call(ctx, host.Request{
		GroupID: s.thread, Operation: s.operation, Arguments: jsontext.Value(s.arguments),
		Lifetime: s.lifetime,
	})
	if err != nil {
		return fmt.Errorf("calling %s: %w", s.operation, err)
	}
	t.key = key
	d.calls[key] = t
	d.order = append(d.order, t)
	if s.after != nil {
		d.users.Go(func() { s.after(d, t) })
	}
	return nil
}

// stragglers waits for what the tools send after the call is resolved.
func (d *demoRun) stragglers(ctx context.Context) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for patience := time.Now().Add(demoLifetime); time.Now().Before(patience); {
		if s := d.rt.Stats(); s.Duplicates >= wantDuplicates && s.Late >= wantLate {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil // the table shows what is missing
}

// cancelSoon cancels the call for the user, after a while.
func cancelSoon(d *demoRun, t *taken) {
	<-time.After(400 * time.Millisecond)
	d.did("cancelling "+t.operation, d.rt.Cancel(context.Background(), t.key))
}

// closeSoon closes the thread for the user, after a while.
func closeSoon(d *demoRun, t *taken) {
	<-time.After(2500 * time.Millisecond)
	d.did("closing "+t.thread, d.rt.CloseThread(context.Background(), t.thread))
}

// did records the error of an action of the user.
func (d *demoRun) did(what string, err error) {
	if err == nil {
		return
	}
	d.mu.Lock()
	d.problems = append(d.problems, fmt.Sprintf("%s: %v", what, err))
	d.mu.Unlock()
}

// find returns the scene of a call.
func (d *demoRun) find(key agentproto.CallKey) *taken {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls[key]
}

// OAuth does nothing: none of these tools needs an account of the user.
func (d *demoRun) OAuth(context.Context, agentproto.CallKey, *agentproto.OAuth) {}

// Choice makes the user pick what the scene says.
func (d *demoRun) Choice(ctx context.Context, key agentproto.CallKey, c *agentproto.UserChoice) {
	t := d.find(key)
	t.detour = "choice pending"
	d.users.Go(func() { d.did("choosing", d.rt.Answer(ctx, key, c.ResponseURL, t.pick)) })
}

// Withdraw does nothing: the user has already answered.
func (d *demoRun) Withdraw(agentproto.CallKey, string) {}

// Progress does nothing: the table shows it.
func (d *demoRun) Progress(agentproto.CallKey, agentproto.State) {}

// View does nothing.
func (d *demoRun) View(agentproto.CallKey, *agentproto.ViewUpdate) {}

// styleFor returns a style with colours if f is a terminal.
func styleFor(f *os.File) style {
	return style{colour: term.IsTerminal(int(f.Fd())) && os.Getenv("NO_COLOR") == ""}
}
