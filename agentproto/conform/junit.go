package conform

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"
)

type junitSuite struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Time     string      `xml:"time,attr"`
	Stamp    string      `xml:"timestamp,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Time    string        `xml:"time,attr"`
	Failure *junitMessage `xml:"failure"`
	Error   *junitMessage `xml:"error"`
	Skipped *junitMessage `xml:"skipped"`
}

type junitMessage struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// WriteJUnit writes the report in the XML format that continuous integration systems read. Cases
// that are not applicable or expected to fail count as skipped; a case that passes unexpectedly is
// a failure.
func (r *Report) WriteJUnit(w io.Writer) error {
	suite := junitSuite{
		Name: "conformance-" + strings.ToLower(r.Side.name()), Tests: len(r.Results), Time: seconds(r.Took),
		Stamp:    r.Started.UTC().Format("2006-01-02T15:04:05"),
		Failures: r.Count("", Failed) + r.Count("", UnexpectedPass),
		Errors:   r.Count("", Errored),
		Skipped:  r.Count("", Inapplicable) + r.Count("", ExpectedFail),
	}
	for _, x := range r.Results {
		c := junitCase{Class: suite.Name + "." + string(x.Level), Name: x.ID + " " + x.Action, Time: seconds(x.Took)}
		m := &junitMessage{Message: printable(clip(x.Reason, 200)), Text: printable(x.Reason)}
		switch x.Status {
		case Failed, UnexpectedPass:
			c.Failure = m
		case Errored:
			c.Error = m
		case Inapplicable, ExpectedFail:
			c.Skipped = m
		}
		suite.Cases = append(suite.Cases, c)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(suite); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func (s Side) name() string {
	if s == Runtime {
		return "Runtime"
	}
	return "Tool"
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }

// printable replaces characters from a target that a terminal or an XML reader would interpret.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return '\uFFFD'
		}
		return r
	}, s)
}
