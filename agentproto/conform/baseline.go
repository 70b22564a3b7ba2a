package conform

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
)

// A Baseline contains the cases that are known to fail, with the reason for each. A run with a
// baseline fails if another case fails, or if one of these passes: then its line has to be removed.
type Baseline map[string]string

// ReadBaseline reads a baseline. Each line has the id of a case and, after blanks, the reason.
// Empty lines and lines that begin with # are ignored. The error is a [*UsageError] that names the
// line if an id is unknown or repeated, or if a reason is missing.
func ReadBaseline(r io.Reader) (Baseline, error) {
	b := make(Baseline)
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		id, reason, _ := strings.Cut(line, " ")
		switch reason = strings.TrimSpace(reason); {
		case !slices.ContainsFunc(table, func(c Case) bool { return c.ID == id }):
			return nil, &UsageError{fmt.Sprintf("baseline, line %d: there is no case %q", n, id)}
		case reason == "":
			return nil, &UsageError{fmt.Sprintf("baseline, line %d: case %s needs a reason", n, id)}
		case b[id] != "":
			return nil, &UsageError{fmt.Sprintf("baseline, line %d: case %s is there already", n, id)}
		}
		b[id] = reason
	}
	if err := lines.Err(); err != nil {
		return nil, &UsageError{"baseline: " + err.Error()}
	}
	return b, nil
}

// apply changes the status of a result that is in the baseline. A case without a verdict keeps its
// status: it is not known to fail.
func (b Baseline) apply(r Result) Result {
	reason, ok := b[r.ID]
	switch {
	case !ok:
	case r.Status == Failed:
		r.Status, r.Reason = ExpectedFail, "as expected: "+reason
	case r.Status == Passed:
		r.Status, r.Reason = UnexpectedPass, "expected to fail: "+reason
	}
	return r
}
