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

// arguments returns the arguments, nil if they are absent or null.
func (c *callLine) arguments() jsontext.Value {
	if c.Arguments.Kind() == 'n' {
		return nil
	}
	return c.Arguments.Clone()
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
	doubtful  bool // making it failed in a way that does not tell whether the runtime has taken it
}

// read makes the calls of in. It returns how many lines have made no call; the lines that are not read because ctx has ended
// count as one.
func (r *runner) read(ctx context.Context, in io.Reader, name string) (bad int) {
	r.mu.Lock()
	r.calls = make(map[agentproto.CallKey]*made)
	r.mu.Unlock()
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	n := 0
	for lines.Scan() {
		if n++; len(strings.TrimSpace(lines.Text())) == 0 {
			continue
		}
		err := ctx.Err()
		if err == nil {
			err = r.call(ctx, lines.Bytes())
		}
		if err != nil && ctx.Err() != nil {
			fmt.Fprintf(r.status, "%s:%d: interrupted: %d lines were made, and those from this one on were not\n", name, n, r.made())
			return bad + 1
		}
		if err != nil {
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
		Arguments: c.arguments(),
	})
	if err != nil {
		<-r.room
		if ctx.Err() != nil && r.calls[key] == nil {
			r.calls[key] = &made{operation: c.Operation, at: time.Now(), doubtful: true}
		}
		return err
	}
	r.calls[key] = &made{operation: c.Operation, at: time.Now()}
	r.open.Add(1)
	r.status.called()
	return nil
}

// made returns how many calls were made.
func (r *runner) made() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, m := range r.calls {
		if !m.doubtful {
			n++
		}
	}
	return n
}

// isDoubtful reports whether the runtime may not have taken a call.
func (r *runner) isDoubtful(key agentproto.CallKey) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls[key].doubtful
}

// print prints the results as they arrive.
func (r *runner) print(results func(func(*agentproto.Resolution) bool)) error {
	var failed error
	for res := range results {
		r.mu.Lock()
		m := r.calls[res.Key]
		if m == nil { // the runtime has taken the call although making it returned an error
			m = &made{at: time.Now(), doubtful: true}
			r.calls[res.Key] = m
		}
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
		failed = cmp.Or(failed, err) // the same one follows for each further result
		if res.Result.IsError() {
			r.status.errors.Add(1)
		}
		if first && !m.doubtful {
			r.status.resolved()
			<-r.room
			r.open.Done()
		}
	}
	return cmp.Or(failed, r.out.Flush())
}

// wait waits until every call is resolved. If ctx ends first, it interrupts the
// pending calls, which also gives them a result.
func (r *runner) wait(ctx context.Context) {
	done := make(chan struct{})
	go func() { r.open.Wait(); close(done) }()
	select {
	case <-done:
		if ctx.Err() == nil {
			return
		}
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
	if len(pending) > 0 {
		fmt.Fprintf(r.status, "millrace run: interrupted, cancelling %d calls\n", len(pending))
	}
	for _, key := range pending {
		if err := r.rt.Cancel(context.WithoutCancel(ctx), key); err != nil && !(r.isDoubtful(key) && errors.Is(err, host.ErrUnknownCall)) {
			fmt.Fprintf(r.status, "millrace run: %v: %v\n", key, err)
		}
	}
	<-done
}

// verdict returns an error unless every call resolved exactly once.
func (r *runner) verdict(bad int) error {
	wrong := 0
	for key, m := range r.calls {
		if m.results != 1 && !(m.doubtful && m.results == 0) {
			wrong++
			fmt.Fprintf(r.status, "millrace run: %v has %d results\n", key, m.results)
		}
	}
	s := r.rt.Stats()
	fmt.Fprintf(r.status, "%d calls, %d results, %d errors among them; dropped: %d duplicates, %d late\n",
		r.made(), s.Results+s.Failures, r.status.errors.Load(), s.Duplicates, s.Late)
	if bad > 0 || wrong > 0 {
		return errFailed
	}
	return nil
}
