package form

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/internal/plain"
)

// A Filling lets a person fill in a form line by line, as in a terminal. It must not be used concurrently.
type Filling struct {
	form     *Form
	question int // index of the question that is being answered
	field    int
	now      map[string]jsontext.Value // values of that question
	values   map[string]jsontext.Value
}

// DeclineLine is the line that declines a question.
const DeclineLine = "/decline"

// NewFilling returns a filling of a form, which must have questions.
func NewFilling(f *Form) *Filling {
	return &Filling{form: f, now: map[string]jsontext.Value{}, values: map[string]jsontext.Value{}}
}

// Ask returns the text to show before the next line is read, escaped for a terminal. It does not end with a line break, so that
// the input follows it. It is empty when the form is filled in.
func (l *Filling) Ask() string {
	if l.question == len(l.form.Questions) {
		return ""
	}
	q := &l.form.Questions[l.question]
	var b strings.Builder
	if l.field == 0 && q.Message != "" {
		fmt.Fprintf(&b, "%s\n", plain.Text(q.Message))
	}
	if len(q.Fields) == 0 {
		b.WriteString("  yes, or " + DeclineLine + ": ")
		return b.String()
	}
	if l.field == 0 {
		b.WriteString("  (" + DeclineLine + " to decline)\n")
	}
	f := &q.Fields[l.field]
	if f.Description != "" {
		fmt.Fprintf(&b, "  %s\n", plain.Line(f.Description))
	}
	for i := range f.Options {
		fmt.Fprintf(&b, "    %d) %s\n", i+1, plain.Line(f.Options[i].Label()))
	}
	fmt.Fprintf(&b, "  %s", plain.Line(f.Label()))
	switch f.Kind {
	case Boolean:
		b.WriteString(" (yes or no)")
	case Choices:
		b.WriteString(" (numbers, with commas)")
	}
	switch {
	case f.Default != nil:
		fmt.Fprintf(&b, " [%s]", plain.Line(f.Line(f.Default)))
	case !f.Required:
		b.WriteString(" (may be left empty)")
	}
	b.WriteString(": ")
	return b.String()
}

// Enter handles a line, and reports whether the form is now filled in. After an error, which says what to enter instead, the same
// field is asked again.
func (l *Filling) Enter(line string) (done bool, err error) {
	if l.question == len(l.form.Questions) {
		return true, nil
	}
	q := &l.form.Questions[l.question]
	var filled jsontext.Value
	if strings.TrimSpace(line) != DeclineLine {
		if len(q.Fields) > 0 {
			f := &q.Fields[l.field]
			v, err := f.Entered(line)
			if err != nil {
				return false, err
			}
			if v != nil {
				l.now[f.Name] = v
			}
			if l.field++; l.field < len(q.Fields) {
				return false, nil
			}
		}
		if filled, err = Filled(l.now); err != nil {
			return false, err
		}
	}
	l.values[q.Name] = filled
	l.question, l.field, l.now = l.question+1, 0, map[string]jsontext.Value{}
	return l.question == len(l.form.Questions), nil
}

// Values returns what was filled in so far, by the names of the questions.
func (l *Filling) Values() map[string]jsontext.Value { return l.values }
