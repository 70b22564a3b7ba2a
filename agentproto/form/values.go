package form

import (
	"bytes"
	"fmt"
	"github.com/go-json-experiment/json"
	"maps"
	"math"
	"net/mail"
	"net/url"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// A ValueError says which value does not fit a form.
type ValueError struct {
	Question string
	Field    string // empty if the whole answer is wrong
	Reason   string
}

// Error describes the mismatch in a sentence.
func (e *ValueError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("the answer to %q %s", short(e.Question), e.Reason)
	}
	return fmt.Sprintf("%q of %q %s", short(e.Field), short(e.Question), e.Reason)
}

// Check returns a *[ValueError] unless values, by the names of their questions, fit the form. Nil stands for a declined question,
// and fits; a question may be missing.
func (f *Form) Check(values map[string]jsontext.Value) error {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		q := f.Question(name)
		if q == nil {
			return &ValueError{Question: name, Reason: "was not asked for"}
		}
		if v := values[name]; v != nil {
			if err := q.Check(v); err != nil {
				return err
			}
		}
	}
	return nil
}

// Check returns a *[ValueError] unless a JSON object has values for the fields of the question: for all required ones, and for no
// others. A null counts as a missing field.
func (q *Question) Check(values jsontext.Value) error {
	wrong := func(field, reason string) error { return &ValueError{q.Name, field, reason} }
	var all map[string]jsontext.Value
	if len(values) > MaxBytes {
		return wrong("", "is too long")
	}
	if !values.IsValid() || values.Kind() != '{' || json.Unmarshal(values, &all) != nil {
		return wrong("", "is no object")
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !slices.ContainsFunc(q.Fields, func(f Field) bool { return f.Name == name }) {
			return wrong(name, "was not asked for")
		}
	}
	for i := range q.Fields {
		f := &q.Fields[i]
		v, given := all[f.Name]
		switch {
		case (!given || v.Kind() == 'n') && f.Required:
			return wrong(f.Name, "is missing")
		case !given || v.Kind() == 'n':
		default:
			if reason := f.wrong(v); reason != "" {
				return wrong(f.Name, reason)
			}
		}
	}
	return nil
}

// wrong returns why a value does not fit the field, or "".
func (f *Field) wrong(v jsontext.Value) string {
	switch f.Kind {
	case Boolean:
		if k := v.Kind(); k != 't' && k != 'f' {
			return "has to be true or false"
		}
	case Number, Integer:
		n, err := strconv.ParseFloat(string(bytes.TrimSpace(v)), 64)
		switch {
		case v.Kind() != '0' || err != nil:
			return "has to be a number"
		case f.Kind == Integer && (n != math.Trunc(n) || math.Abs(n) > 1<<53):
			return "has to be a whole number"
		}
		return f.outside(n, "")
	case Text:
		s, ok := textOf(v)
		if !ok {
			return "has to be a text"
		}
		if reason := f.outside(float64(utf8.RuneCountInString(s)), " characters"); reason != "" {
			return reason
		}
		return f.unformatted(s)
	case Choice:
		if s, ok := textOf(v); !ok || !f.has(s) {
			return "has to be one of the options"
		}
	case Choices:
		var some []jsontext.Value
		if v.Kind() != '[' || json.Unmarshal(v, &some) != nil {
			return "has to be a list of options"
		}
		chosen := map[string]bool{}
		for _, one := range some {
			s, ok := textOf(one)
			if !ok || !f.has(s) || chosen[s] {
				return "has to be a list of options, each once"
			}
			chosen[s] = true
		}
		return f.outside(float64(len(some)), " options")
	}
	return ""
}

func (f *Field) has(value string) bool {
	return slices.ContainsFunc(f.Options, func(o Option) bool { return o.Value == value })
}

// outside returns how a number violates the bounds, or "".
func (f *Field) outside(n float64, of string) string {
	switch {
	case f.Min != nil && n < *f.Min:
		return fmt.Sprintf("has to be at least %v%s", *f.Min, of)
	case f.Max != nil && n > *f.Max:
		return fmt.Sprintf("has to be at most %v%s", *f.Max, of)
	}
	return ""
}

// unformatted returns why a text does not have the field's format, or "".
func (f *Field) unformatted(s string) string {
	switch f.Format {
	case "email":
		if a, err := mail.ParseAddress(s); err != nil || a.Address != s {
			return "has to be an e-mail address"
		}
	case "uri":
		if u, err := url.Parse(s); err != nil || u.Scheme == "" {
			return "has to be an address with a scheme"
		}
	case "date":
		if _, err := time.Parse(time.DateOnly, s); err != nil {
			return "has to be a date, such as 2026-11-27"
		}
	case "date-time":
		if _, err := time.Parse(time.RFC3339, s); err != nil {
			return "has to be a time, such as 2026-11-27T13:30:00Z"
		}
	}
	return ""
}

// Defaults returns the default values of all questions. It reports false if a required field has no default.
func (f *Form) Defaults() (map[string]jsontext.Value, bool) {
	all := map[string]jsontext.Value{}
	for i := range f.Questions {
		q := &f.Questions[i]
		values := map[string]jsontext.Value{}
		for _, field := range q.Fields {
			switch {
			case field.Default != nil:
				values[field.Name] = field.Default
			case field.Required:
				return nil, false
			}
		}
		v, err := Filled(values)
		if err != nil {
			return nil, false
		}
		all[q.Name] = v
	}
	return all, true
}

func textOf(v jsontext.Value) (string, bool) {
	if v.Kind() != '"' {
		return "", false
	}
	s, err := jsontext.AppendUnquote(nil, v)
	return string(s), err == nil
}
