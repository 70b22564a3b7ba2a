package conform

import (
	"encoding/json"
	"io"
	"time"
)

// A Status says how a case ended.
type Status string

// The statuses.
const (
	Passed         Status = "pass"
	Failed         Status = "fail"
	Inapplicable   Status = "not-applicable"   // the target lacks what the case needs
	Errored        Status = "error"            // no verdict: the case could not be completed
	ExpectedFail   Status = "expected-failure" // failed, as the baseline expects
	UnexpectedPass Status = "unexpected-pass"  // passed, although the baseline expects it to fail
)

// A Result is the outcome of one case.
type Result struct {
	Case
	Status Status
	// Reason says why the case did not pass, or why the baseline expects it to fail. It is empty
	// for a case that passed.
	Reason string
	// Failure contains the details of a failed case.
	Failure *Failure
	// Notes say what the target should do differently, although no case fails because of it.
	Notes []string
	Took  time.Duration
}

// A Report is the outcome of a run.
type Report struct {
	Side    Side
	Target  string // what was tested, such as a URL
	Started time.Time
	Took    time.Duration
	Results []Result // in the order of the table
}

// Count returns how many cases of a level have a status. An empty level means all.
func (r *Report) Count(l Level, s Status) int {
	n := 0
	for _, x := range r.Results {
		if x.Status == s && (l == "" || x.Level == l) {
			n++
		}
	}
	return n
}

// Result returns the result of a case.
func (r *Report) Result(id string) (Result, bool) {
	for _, x := range r.Results {
		if x.ID == id {
			return x, true
		}
	}
	return Result{}, false
}

// OK reports whether nothing failed unexpectedly or passed unexpectedly. Cases that are not
// applicable do not count.
func (r *Report) OK() bool {
	return r.Count("", Failed)+r.Count("", Errored)+r.Count("", UnexpectedPass) == 0
}

// ExitCode returns 0 if the report is [Report.OK], and 1 otherwise. The exit code of a run without
// a report is 2.
func (r *Report) ExitCode() int {
	if r.OK() {
		return 0
	}
	return 1
}

// jsonReport is the form of [Report.WriteJSON].
type jsonReport struct {
	Side    Side           `json:"side"`
	Target  string         `json:"target"`
	Started time.Time      `json:"started"`
	Millis  int64          `json:"took_ms"`
	OK      bool           `json:"ok"`
	Counts  map[Status]int `json:"counts"`
	Cases   []jsonResult   `json:"cases"`
}

type jsonResult struct {
	ID       string   `json:"id"`
	Status   Status   `json:"status"`
	Level    Level    `json:"level"`
	Action   string   `json:"action"`
	Expected string   `json:"expected"`
	Section  string   `json:"section"`
	Reason   string   `json:"reason,omitempty"`
	Failure  *Failure `json:"failure,omitempty"`
	Notes    []string `json:"notes,omitempty"`
	Millis   int64    `json:"took_ms"`
}

// WriteJSON writes the report as one JSON object. Its member cases is an array of
// objects with id, status, level, action, expected, section, took_ms and, if the case
// did not pass, reason and failure.
func (r *Report) WriteJSON(w io.Writer) error {
	out := jsonReport{
		Side: r.Side, Target: r.Target, Started: r.Started.UTC(), Millis: r.Took.Milliseconds(), OK: r.OK(),
		Counts: make(map[Status]int), Cases: []jsonResult{},
	}
	for _, x := range r.Results {
		out.Counts[x.Status]++
		out.Cases = append(out.Cases, jsonResult{
			ID: x.ID, Status: x.Status, Level: x.Level, Action: x.Action, Expected: x.Expected, Section: x.Section,
			Reason: x.Reason, Failure: x.Failure, Notes: x.Notes, Millis: x.Took.Milliseconds(),
		})
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(out)
}
