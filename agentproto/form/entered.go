package form

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Entered returns the value of a field from a line that a person entered: options by their numbers, starting at 1 and separated
// by commas, yes or no, and any other kind as it is. An empty line means the default, or nil if there is none. The error says
// what to enter instead.
func (f *Field) Entered(line string) (jsontext.Value, error) {
	line = strings.TrimSpace(line)
	if line == "" {
		if f.Default == nil && f.Required {
			return nil, fmt.Errorf("%s is needed", f.Label())
		}
		return f.Default, nil
	}
	texts := []string{line}
	switch f.Kind {
	case Choice, Choices:
		if f.Kind == Choices {
			texts = strings.Split(line, ",")
		}
		for i, text := range texts {
			n, err := strconv.Atoi(strings.TrimSpace(text))
			if err != nil || n < 1 || n > len(f.Options) {
				return nil, fmt.Errorf("%s: enter a number from 1 to %d", f.Label(), len(f.Options))
			}
			texts[i] = f.Options[n-1].Value
		}
		if f.Kind == Choice && texts[0] == "" { // for Posted, nothing was chosen then
			return jsontext.Value(`""`), nil
		}
	case Boolean:
		switch strings.ToLower(line) {
		case "y", "yes", "true":
			texts[0] = "true"
		case "n", "no", "false":
			texts[0] = "false"
		default:
			return nil, fmt.Errorf("%s: enter yes or no", f.Label())
		}
	}
	return f.Posted(texts)
}

// Posted returns the value of a field from texts that a web page posted: the values of options, "true" or "false", a number, or
// the text itself. Without a text the value is nil, and so is that of an empty text for a field that is not a text.
func (f *Field) Posted(texts []string) (jsontext.Value, error) {
	var v any
	switch {
	case f.Kind == Choices:
		v = append([]string{}, texts...)
	case len(texts) == 0, texts[0] == "" && (f.Kind != Text || !f.Required):
		if f.Required {
			return nil, fmt.Errorf("%s is needed", f.Label())
		}
		return nil, nil
	case f.Kind == Boolean, f.Kind == Number, f.Kind == Integer:
		raw := jsontext.Value(strings.TrimSpace(texts[0]))
		if !raw.IsValid() {
			return nil, fmt.Errorf("%s %s", f.Label(), f.wrong(jsontext.Value(`""`)))
		}
		v = raw
	default:
		v = texts[0]
	}
	data, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be taken: %w", f.Label(), err)
	}
	if reason := f.wrong(data); reason != "" {
		return nil, fmt.Errorf("%s %s", f.Label(), reason)
	}
	return slices.Clip(data), nil
}

// Line returns a value in the form that [Field.Entered] accepts, for showing the default.
func (f *Field) Line(v jsontext.Value) string {
	switch s, isText := textOf(v); {
	case v == nil:
		return ""
	case f.Kind == Choice && isText:
		return f.number(s)
	case f.Kind == Choices:
		var all []string
		if json.Unmarshal(v, &all) != nil {
			return ""
		}
		for i, s := range all {
			all[i] = f.number(s)
		}
		return strings.Join(all, ",")
	case f.Kind == Boolean:
		return map[bool]string{true: "yes", false: "no"}[v.Kind() == 't']
	case isText:
		return s
	}
	return string(v)
}

func (f *Field) number(value string) string {
	return strconv.Itoa(1 + slices.IndexFunc(f.Options, func(o Option) bool { return o.Value == value }))
}
