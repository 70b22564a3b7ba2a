package script

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
)

// Options are the optional settings of [Run].
type Options struct {
	Update bool // rewrite the last section instead of failing

	// Schedules is the maximum number of records of a script that is run in all
	// schedules. Zero means 5.
	Schedules int
}

// Run runs the scripts that match pattern, each as a test named like its file.
func Run(t *testing.T, pattern string, flows map[string]Flow, opts Options) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no scripts, %v", pattern, err)
	}
	if opts.Schedules == 0 {
		opts.Schedules = 5
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s, err := Parse(file, data)
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.play(t, flows, opts)
			switch {
			case err != nil:
				t.Fatal(err)
			case got == s.Out:
			case opts.Update:
				s.Out = got
				if err := os.WriteFile(file, s.Format(), 0o644); err != nil {
					t.Fatal(err)
				}
			default:
				t.Errorf("%s: the outputs differ; go test -run '^%s$' -update accepts them\ngot:\n%s\nwant:\n%s", file, t.Name(), got, s.Out)
			}
		})
	}
}

// play runs a script in all ways. It returns what it shows, and where the ways
// differ.
func (s *Script) play(t *testing.T, flows map[string]Flow, opts Options) (string, error) {
	flow := flows[s.Flow]
	if flow == nil {
		return "", s.errorf(s.flowRow, "there is no flow %q", s.Flow)
	}
	var first []string
	var b strings.Builder
	same := make(map[string][]string) // names of ways, by what they show
	var order []string
	note := func(diff, name string) {
		if diff != "" && same[diff] == nil {
			order = append(order, diff)
		}
		if diff != "" && !slices.Contains(same[diff], name) {
			same[diff] = append(same[diff], name)
		}
	}
	for _, w := range s.ways() {
		shown, err := s.live(t, flow, w)
		if err != nil {
			return "", err
		}
		if first == nil {
			first = shown
			b.WriteString(strings.Join(shown, ""))
			continue
		}
		note(differ(first, shown), w.name)
	}
	if s.small(opts.Schedules) && !strings.HasPrefix(first[len(first)-1], "failed") {
		for _, shown := range s.schedules(t, flow) {
			note(differ(first, shown), "in some schedule")
		}
	}
	for _, diff := range order {
		fmt.Fprintf(&b, "but %s\n%s", strings.Join(same[diff], ", "), diff)
	}
	return b.String(), nil
}

// differ returns the ticks of shown that differ from those of first.
func differ(first, shown []string) string {
	var b strings.Builder
	for i := range max(len(first), len(shown)) {
		var x, y string
		if i < len(first) {
			x = first[i]
		}
		if i < len(shown) {
			y = shown[i]
		}
		switch {
		case x == y:
		case y == "":
			fmt.Fprintf(&b, "  nothing in %s\n", strings.SplitN(x, "\n", 2)[0])
		default:
			for line := range strings.Lines(y) {
				b.WriteString("  " + line)
			}
		}
	}
	return b.String()
}

// show returns what is visible after a tick.
func (st *Stage) show(title string, refused []string) string {
	var b strings.Builder
	for _, line := range refused {
		fmt.Fprintf(&b, "  refused %s\n", line)
	}
	for _, out := range st.outputs {
		for _, news := range out.news() {
			fmt.Fprintf(&b, "  %s %s\n", out.name, news)
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return title + "\n" + b.String()
}

// raise builds the stage of a script.
func (s *Script) raise(at dataflow.Here, flow Flow) (st *Stage, err error) {
	st = newStage(at, s.Args)
	defer func() {
		if v := recover(); v != nil {
			err = s.errorf(s.flowRow, "the flow %s panics while it is built: %v", s.Flow, v)
		}
	}()
	flow(st)
	for name := range s.Args {
		if !st.used[name] {
			return nil, s.errorf(s.flowRow, "the flow %s has no argument %s", s.Flow, name)
		}
	}
	return st, nil
}

// failure describes how a flow failed, without source positions, which change with
// every edit.
func failure(err error) string {
	var step *dataflow.StepError
	if errors.As(err, &step) {
		if step.Key != nil {
			return fmt.Sprintf("failed in %s on key %v: %v\n", step.Op, step.Key, step.Err)
		}
		return fmt.Sprintf("failed in %s: %v\n", step.Op, step.Err)
	}
	return fmt.Sprintf("failed: %v\n", err)
}

// live runs a script as in production, in a synctest bubble, where waiting takes no
// time.
func (s *Script) live(t *testing.T, flow Flow, w way) (shown []string, err error) {
	synctest.Test(t, func(t *testing.T) { shown, err = s.inBubble(t.Context(), flow, w) })
	return shown, err
}

func (s *Script) inBubble(ctx context.Context, flow Flow, w way) (shown []string, err error) {
	f := dataflow.New()
	st, err := s.raise(dataflow.At[dataflow.Here](f), flow)
	if err != nil {
		return nil, err
	}
	// While the location runs a function of this input, records only wait, so that
	// the next step takes them together.
	port, held := dataflow.Input[func()](st.At, "held by the script")
	dataflow.ForEach(held, func(do func()) { do() })
	var app *dataflow.App
	begin := func() error {
		if app != nil {
			return nil
		}
		app, err = dataflow.Start(ctx, f)
		return err
	}
	for n, lines := range s.ticks() {
		var refused []string
		steps, err := w.steps(st, lines)
		if err != nil {
			return nil, err
		}
		for i, step := range steps {
			if n == 0 && i == 0 && w.early && step.do != nil {
				refused = append(refused, step.do(ctx)...)
				continue
			}
			if err := begin(); err != nil {
				return nil, err
			}
			switch {
			case step.do == nil:
				<-time.After(step.wait)
			case step.direct:
				refused = append(refused, step.do(ctx)...)
			default:
				// After the flow has failed, nothing is taken.
				_ = port.Send(ctx, func() { refused = append(refused, step.do(ctx)...) })
			}
			synctest.Wait()
		}
		if err := begin(); err != nil {
			return nil, err
		}
		synctest.Wait()
		shown = append(shown, st.show(fmt.Sprint("tick ", n+1), refused))
		if err := app.Err(); err != nil {
			return append(shown, failure(err)), nil
		}
	}
	if err := begin(); err != nil {
		return nil, err
	}
	if err := app.Stop(ctx); err != nil {
		return append(shown, failure(err)), nil
	}
	return append(shown, st.show("end", nil)), nil
}

// small reports whether a script can be run in all schedules: it has few records, and
// no time passes.
func (s *Script) small(limit int) bool {
	n := 0
	for _, l := range s.Lines {
		switch l.Verb {
		case "send", "put":
			n++
		case "wait":
			return false
		}
	}
	return n <= limit
}

// schedules runs a script in all schedules and returns the different results.
func (s *Script) schedules(t *testing.T, flow Flow) (all [][]string) {
	known := make(map[string]bool)
	sim.Exhaustive(t, func(x *sim.Sim) {
		st, err := s.raise(dataflow.At[dataflow.Here](x.Flow()), flow)
		x.Check(err)
		x.Start()
		var shown []string
		for n, lines := range s.ticks() {
			var refused []string
			for _, l := range lines {
				act, _, err := s.act(st, l)
				x.Check(err)
				refused = append(refused, act(x.Context())...)
			}
			x.Quiesce()
			shown = append(shown, st.show(fmt.Sprint("tick ", n+1), refused))
		}
		if text := strings.Join(shown, "\x00"); !known[text] {
			known[text] = true
			all = append(all, shown)
		}
	})
	slices.SortFunc(all, func(a, b []string) int { return strings.Compare(strings.Join(a, ""), strings.Join(b, "")) })
	return all
}
