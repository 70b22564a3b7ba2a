package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/term"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/internal/plain"
)

const runUsage = `usage: millrace run --tool URL [--tool URL ...] [flags] [calls.jsonl | -]

Makes the calls of a file, or of standard input, and prints each result as a JSON
line as it resolves. A call is one JSON object a line:

  {"group_id": "thread-1", "operation": "echo", "arguments": {"text": "hi"}}

group_id and operation are required; arguments, id and user_id are optional. The
exit status is 0 if and only if every line was a call and every call resolved
exactly once. What went wrong with a line or a tool server is said on standard error.

`

// A callLine is a call as a line of a file.
type callLine struct {
	GroupID   string         `json:"group_id"`
	Operation string         `json:"operation"`
	Arguments jsontext.Value `json:"arguments"`
	ID        string         `json:"id"`
	UserID    string         `json:"user_id"`
}

// A resultLine is a result as it is printed.
type resultLine struct {
	GroupID   string               `json:"group_id"`
	ID        string               `json:"id"`
	Operation string               `json:"operation"`
	OK        bool                 `json:"ok"`    // false for every result whose text starts with "Error: "
	Cause     string               `json:"cause"` // which input resolved the call
	Text      string               `json:"text"`  // as the model sees it
	Content   []agentproto.Content `json:"content,omitempty"`
	Millis    int64                `json:"ms"` // from the call to its result
}

// maxLine is the longest line of a file of calls, in bytes.
const maxLine = 4 << 20

func run(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("run", flag.ContinueOnError)
	fs.Usage = func() { fmt.Fprint(fs.Output(), runUsage); fs.PrintDefaults() }
	var tools toolFlags
	tools.add(fs)
	timeout := fs.Duration("timeout", 30*time.Second, "how long a call may wait for its result, detours not counted")
	listen := fs.String("listen", "", "`address` of the callback endpoint; a free port of this host if empty")
	public := fs.String("public", "", "`URL` at which tool servers reach the callback endpoint, if not that address")
	ahead := fs.Int("ahead", 4096, "how many calls may be unresolved at once")
	if err := parse(fs, args); err != nil {
		return err
	}
	switch {
	case tools.check() != nil:
		return misused(fs, "%v", tools.check())
	case fs.NArg() > 1:
		return misused(fs, "more than one file: %s", strings.Join(fs.Args(), " "))
	case *timeout <= 0 || *ahead <= 0:
		return misused(fs, "--timeout and --ahead must be positive")
	}
	name := cmp.Or(fs.Arg(0), "-")
	in, answers := io.Reader(os.Stdin), io.Reader(strings.NewReader(""))
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		in, answers = f, os.Stdin
	}

	status := newProgress(os.Stderr, term.IsTerminal(int(os.Stderr.Fd())))
	opts := host.Options{
		ListenAddr: *listen, PublicURL: *public,
		Surface:  &runSurface{host.NewTerminal(answers, status), status},
		Timeouts: host.Timeouts{Call: *timeout, LongCall: *timeout},
		Logger:   slog.New(slog.NewTextHandler(status, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	if err := tools.set(&opts, ""); err != nil {
		return err
	}
	rt, err := host.Start(context.WithoutCancel(ctx), opts)
	if err != nil {
		return err
	}
	for _, p := range rt.Problems() {
		fmt.Fprintf(status, "millrace run: %v\n", p)
	}
	r := &runner{rt: rt, status: status, room: make(chan struct{}, *ahead), out: bufio.NewWriter(stdout)}
	results := rt.Results(context.WithoutCancel(ctx)) // subscribed before the first call
	printed := make(chan error, 1)
	go func() { printed <- r.print(results) }()
	bad := r.read(ctx, in, name)
	r.wait(ctx)
	err = errors.Join(rt.Stop(context.WithoutCancel(ctx)), <-printed)
	status.done()
	if err != nil {
		return err
	}
	return r.verdict(bad)
}

// A runner makes the calls of one file.
type runner struct {
	rt     *host.Runtime
	status *progress
	room   chan struct{} // one element for each unresolved call
	out    *bufio.Writer

	mu    sync.Mutex
	calls map[agentproto.CallKey]*made
	open  sync.WaitGroup
}

// made records a call that was made.
type made struct {
	operation string
	at        time.Time
	results   int
}

// read makes the calls of in and returns the number of invalid lines.
func (r *runner) read(ctx context.Context, in io.Reader, name string) (bad int) {
	r.mu.Lock()
	r.calls = make(map[agentproto.CallKey]*made)
	r.mu.Unlock()
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	n := 0
	for lines.Scan() && ctx.Err() == nil {
		if n++; len(strings.TrimSpace(lines.Text())) == 0 {
			continue
		}
		if err := r.call(ctx, lines.Bytes()); err != nil && ctx.Err() == nil {
			bad++
			fmt.Fprintf(r.status, "%s:%d: %v\n", name, n, err)
		}
	}
	if err := lines.Err(); err != nil {
		bad++
		fmt.Fprintf(r.status, "%s:%d: %v\n", name, n+1, err)
	}
	return bad
}

// call makes the call of one line.
func (r *runner) call(ctx context.Context, line []byte) error {
	var c callLine
	if err := json.Unmarshal(line, &c, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("not a call: %w", err)
	}
	switch {
	case c.GroupID == "":
		return errors.New(`not a call: member "group_id" is missing or empty`)
	case c.Operation == "":
		return errors.New(`not a call: member "operation" is missing or empty`)
	}
	select {
	case r.room <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock() // held until the result can find its call
	key, err := r.rt.Call(ctx, host.Request{
		GroupID: c.GroupID, ID: c.ID, Operation: c.Operation, UserID: c.UserID,
		Arguments: append(jsontext.Value(nil), c.Arguments...),
	})
	if err != nil {
		<-r.room
		return err
	}
	r.calls[key] = &made{operation: c.Operation, at: time.Now()}
	r.open.Add(1)
	r.status.called()
	return nil
}

// print prints the results as they arrive.
func (r *runner) print(results func(func(*agentproto.Resolution) bool)) error {
	var failed error
	for res := range results {
		r.mu.Lock()
		m := r.calls[res.Key]
		m.results++
		first := m.results == 1
		r.mu.Unlock()
		text := res.Result.String()
		line, err := json.Marshal(resultLine{
			GroupID: res.Key.GroupID, ID: res.Key.ID, Operation: m.operation, OK: !res.Result.IsError(),
			Cause: res.Cause.String(), Text: text, Content: res.Result.Content, Millis: time.Since(m.at).Milliseconds(),
		})
		if err == nil {
			_, err = r.out.Write(append(plain.JSON(line), '\n'))
		}
		if err == nil && (first || len(r.room) == 0) {
			err = r.out.Flush()
		}
		failed = errors.Join(failed, err)
		if res.Result.IsError() {
			r.status.errors.Add(1)
		}
		if first {
			r.status.resolved()
			<-r.room
			r.open.Done()
		}
	}
	return errors.Join(failed, r.out.Flush())
}

// wait waits until every call is resolved. If ctx ends first, it interrupts the
// pending calls, which also gives them a result.
func (r *runner) wait(ctx context.Context) {
	done := make(chan struct{})
	go func() { r.open.Wait(); close(done) }()
	select {
	case <-done:
		return
	case <-ctx.Done():
	}
	var pending []agentproto.CallKey
	r.mu.Lock()
	for key, m := range r.calls {
		if m.results == 0 {
			pending = append(pending, key)
		}
	}
	r.mu.Unlock()
	fmt.Fprintf(r.status, "millrace run: interrupted, cancelling %d calls\n", len(pending))
	for _, key := range pending {
		if err := r.rt.Cancel(context.WithoutCancel(ctx), key); err != nil {
			fmt.Fprintf(r.status, "millrace run: %v: %v\n", key, err)
		}
	}
	<-done
}

// verdict returns an error unless every call resolved exactly once.
func (r *runner) verdict(bad int) error {
	wrong := 0
	for key, m := range r.calls {
		if m.results != 1 {
			wrong++
			fmt.Fprintf(r.status, "millrace run: %v has %d results\n", key, m.results)
		}
	}
	s := r.rt.Stats()
	fmt.Fprintf(r.status, "%d calls, %d results, %d errors among them; dropped: %d duplicates, %d late\n",
		len(r.calls), s.Results+s.Failures, r.status.errors.Load(), s.Duplicates, s.Late)
	if bad > 0 || wrong > 0 {
		return errFailed
	}
	return nil
}

// A runSurface is a terminal that also counts the states of calls.
type runSurface struct {
	*host.Terminal
	status *progress
}

// Progress counts the call's state, and then does what the terminal does.
func (s *runSurface) Progress(key agentproto.CallKey, state agentproto.State) {
	s.status.state(key, state)
	s.Terminal.Progress(key, state)
}

// A progress is the line at the bottom of a terminal that shows how many calls are
// done. Other output is written above it. If the output is not a terminal, there is
// no line.
type progress struct {
	live bool

	mu      sync.Mutex
	w       io.Writer
	plain   *plain.Writer // writes to w, for everything except the line
	shown   int           // columns of the visible line
	last    time.Time
	detours map[agentproto.CallKey]agentproto.State
	all, ok int
	errors  atomic.Int64
}

func newProgress(w io.Writer, live bool) *progress {
	return &progress{w: w, plain: plain.NewWriter(w), live: live, detours: make(map[agentproto.CallKey]agentproto.State)}
}

// Write writes p above the line.
func (p *progress) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	n, err := p.plain.Write(b)
	p.show()
	return n, err
}

func (p *progress) called() { p.change(false, func() { p.all++ }) }

func (p *progress) resolved() { p.change(false, func() { p.ok++ }) }

func (p *progress) state(key agentproto.CallKey, s agentproto.State) {
	p.change(s == agentproto.OAuthPending || s == agentproto.ChoicePending, func() {
		delete(p.detours, key)
		if s == agentproto.OAuthPending || s == agentproto.ChoicePending {
			p.detours[key] = s
		}
	})
}

// change changes the figures. It shows them unless that was done less than 50 ms
// ago; now forces it.
func (p *progress) change(now bool, f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	if p.live && (now || time.Since(p.last) > 50*time.Millisecond) {
		p.last = time.Now()
		p.clear()
		p.show()
	}
}

func (p *progress) clear() {
	if p.shown > 0 {
		fmt.Fprintf(p.w, "\r%*s\r", p.shown, "")
		p.shown = 0
	}
}

func (p *progress) show() {
	if !p.live || p.all == 0 {
		return
	}
	oauth := 0
	for _, s := range p.detours {
		if s == agentproto.OAuthPending {
			oauth++
		}
	}
	n, _ := fmt.Fprintf(p.w, "pending %d, oauth pending %d, choice pending %d, completed %d of %d",
		p.all-p.ok-len(p.detours), oauth, len(p.detours)-oauth, p.ok, p.all)
	p.shown = n
}

// done removes the line.
func (p *progress) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	p.live = false
}
