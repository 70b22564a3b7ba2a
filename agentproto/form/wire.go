package form

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/internal/plain"
)

// errLong says that the JSON of a form is too long.
var errLong = fmt.Errorf("a form has more than %d bytes", MaxBytes)

type wireForm struct {
	Questions []wireQuestion `json:"questions"`
}

type wireQuestion struct {
	Name    string         `json:"name"`
	Message string         `json:"message"`
	Schema  jsontext.Value `json:"schema"`
}

// Encode returns the form as JSON, in a canonical form. It returns an error for what [Parse] would refuse.
func (f *Form) Encode() (jsontext.Value, error) {
	if err := f.validate(); err != nil {
		return nil, err
	}
	var w wireForm
	for i := range f.Questions {
		q := &f.Questions[i]
		schema, err := q.Schema()
		if err != nil {
			return nil, err
		}
		w.Questions = append(w.Questions, wireQuestion{q.Name, q.Message, schema})
	}
	data, err := json.Marshal(w)
	if err == nil && len(data) > MaxBytes {
		err = errLong
	}
	return data, err
}

// Parse reads an untrusted form. It removes invisible characters from texts and ignores unknown members. A form that cannot be
// filled in, or that asks for a secret, is refused with an error that says why.
func Parse(data jsontext.Value) (*Form, error) {
	if len(data) > MaxBytes {
		return nil, errLong
	}
	var w wireForm
	if err := json.Unmarshal(data, &w); err != nil {
		return nil, errors.New("the form is no JSON object with questions")
	}
	f := new(Form)
	for _, q := range w.Questions {
		fields, err := Fields(q.Schema)
		if err != nil {
			return nil, fmt.Errorf("question %q: %w", short(q.Name), err)
		}
		f.Questions = append(f.Questions, Question{Name: q.Name, Message: seen(q.Message), Fields: fields})
	}
	return f, f.validate()
}

// Filled returns values as JSON, in a canonical form. Nil stands for a declined question.
func Filled(values map[string]jsontext.Value) (jsontext.Value, error) {
	return json.Marshal(values, json.Deterministic(true))
}

// Values reads what [Filled] has written. The value of a declined question is nil.
func Values(data jsontext.Value) (map[string]jsontext.Value, error) {
	var all map[string]jsontext.Value
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("the values have more than %d bytes", MaxBytes)
	}
	if data.Kind() != '{' || json.Unmarshal(data, &all) != nil {
		return nil, errors.New("the values are no JSON object")
	}
	for name, v := range all {
		if v.Kind() == 'n' {
			all[name] = nil
		} else {
			all[name] = bytes.Clone(v)
		}
	}
	return all, nil
}

// seen returns a text without its invisible characters.
func seen(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\u200C' && r != '\u200D' && (r < 0xFE00 || r > 0xFE0F) && plain.Invisible(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}
