package conform

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// outcomes holds trials with every possible outcome.
var outcomes = map[string]trial{
	"A01": {run: func(*probe) {}},
	"A02": {run: func(p *probe) { p.fail("a call", "\x1b[31mnothing", "a result") }},
	"A03": {run: func(p *probe) { p.lacks("role strict") }},
	"A04": {run: func(p *probe) { p.must(errors.New("no route"), "invoke") }},
	"A05": {run: func(*probe) { panic("a trial that is wrong") }},
	"A06": {run: func(p *probe) { <-p.ctx.Done(); p.must(context.Cause(p.ctx), "wait") }, limit: 20 * time.Millisecond},
	"A07": {run: func(p *probe) { p.fail("a call", "nothing", "a result") }, alone: true},
	"A08": {run: func(*probe) {}, alone: true},
}

func TestPerform(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var progress []string
		opts := Options{
			Run: "A0[1-9]", Baseline: Baseline{"A07": "known", "A08": "known", "A04": "known"},
			Progress: func(r Result) { progress = append(progress, r.ID) },
		}
		report, err := opts.perform(t.Context(), Tool, "http://127.0.0.1:1", outcomes)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]Status{
			"A01": Passed, "A02": Failed, "A03": Inapplicable, "A04": Errored, "A05": Errored, "A06": Errored,
			"A07": ExpectedFail, "A08": UnexpectedPass, "A09": Errored,
		}
		if len(report.Results) != len(want) || len(progress) != len(want) {
			t.Errorf("%d results, %d of progress, want %d", len(report.Results), len(progress), len(want))
		}
		for _, r := range report.Results {
			if r.Status != want[r.ID] {
				t.Errorf("%s: %s (%s), want %s", r.ID, r.Status, r.Reason, want[r.ID])
			}
		}
		if last := progress[len(progress)-2:]; last[0] != "A07" || last[1] != "A08" {
			t.Errorf("cases that run alone came before %v", progress)
		}
		if report.OK() || report.ExitCode() != 1 {
			t.Error("the report is OK")
		}
		if r, _ := report.Result("A05"); !strings.Contains(r.Reason, "run_test.go") {
			t.Errorf("a panic is told as %q", r.Reason)
		}
		if r, _ := report.Result("A06"); r.Took != 20*time.Millisecond {
			t.Errorf("took %v", r.Took)
		}
		checkFormats(t, report)
	})
}

// TestLimits lets a case wait as long as the profile allows. Such waits do not count
// toward the case's limit; its own time does. A target that makes a case wait forever is
// stopped.
func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait := func(p *probe, times int) {
			for range times {
				over := p.waiting(time.Minute)
				select {
				case <-time.After(50 * time.Second):
				case <-p.ctx.Done():
					p.must(context.Cause(p.ctx), "wait")
				}
				over()
			}
		}
		for _, test := range []struct {
			name  string
			limit time.Duration
			run   func(p *probe)
			want  Status
			took  time.Duration
		}{
			{"within", 0, func(p *probe) { wait(p, 10) }, Passed, 500 * time.Second},
			{"for ever", 0, func(p *probe) { wait(p, 1000) }, Errored, 610 * time.Second},
			{"of its own accord", 0, func(p *probe) { wait(p, 1); <-p.ctx.Done(); p.must(context.Cause(p.ctx), "x") }, Errored, 60 * time.Second},
			{"with a limit for all", 20 * time.Second, func(p *probe) { wait(p, 1) }, Errored, 20 * time.Second},
		} {
			run := func(p *probe) { p.spare = 10 * time.Minute; test.run(p) }
			r := trial{run: run, limit: 10 * time.Second}.judge(t.Context(), table[0], test.limit)
			if r.Status != test.want || r.Took != test.took {
				t.Errorf("%s: %s after %v (%s), want %s after %v", test.name, r.Status, r.Took, r.Reason, test.want, test.took)
			}
		}
	})
}

func checkFormats(t *testing.T, report *Report) {
	t.Helper()
	var text, js, junit bytes.Buffer
	if err := errors.Join(report.WriteTable(&text), report.WriteJSON(&js), report.WriteJUnit(&junit)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"FAIL   A02 S", "expected  a result (doc/protocol.md §4.3)", "n/a    A03", "1 passed that are expected to fail"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the table does not say %q\n%s", want, &text)
		}
	}
	if strings.ContainsRune(text.String()+junit.String(), 0x1b) {
		t.Error("an escape sequence of the target gets through")
	}
	var parsed struct {
		OK    bool
		Cases []struct{ ID, Status string }
	}
	if err := json.Unmarshal(js.Bytes(), &parsed); err != nil || parsed.OK || len(parsed.Cases) != 9 || parsed.Cases[1].ID != "A02" || parsed.Cases[1].Status != "fail" {
		t.Errorf("%v\n%s", err, &js)
	}
	var suite junitSuite
	if err := xml.Unmarshal(junit.Bytes(), &suite); err != nil || suite.Tests != 9 || suite.Failures != 2 || suite.Errors != 4 || suite.Skipped != 2 {
		t.Errorf("%v\n%s", err, &junit)
	}
}

// TestChosen checks that a filter that is invalid or selects no case is a usage error.
func TestChosen(t *testing.T) {
	for _, c := range []struct {
		opts Options
		want int
	}{
		{Options{Run: "A0[1-4]"}, 4}, {Options{Run: "A0"}, 0}, {Options{Run: "("}, 0}, {Options{Run: "R01"}, 0},
		{Options{Levels: "X"}, 0}, {Options{Run: "A.*", Levels: "S"}, 2},
	} {
		got, err := c.opts.chosen(Tool)
		var usage *UsageError
		if len(got) != c.want || (err != nil) != (c.want == 0) || err != nil && !errors.As(err, &usage) {
			t.Errorf("%+v: %d cases, %v", c.opts, len(got), err)
		}
	}
}

func TestReadBaseline(t *testing.T) {
	b, err := ReadBaseline(strings.NewReader("# known\n\nA02  issue 12\n"))
	if err != nil || len(b) != 1 || b["A02"] != "issue 12" {
		t.Errorf("%v, %v", b, err)
	}
	for _, bad := range []string{"A99 x", "A02", "A02 x\nA02 y"} {
		if _, err := ReadBaseline(strings.NewReader(bad)); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}
