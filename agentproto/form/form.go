// Package form defines forms that a tool asks its user to fill in: one or several named questions, each with fields for a text, a
// number, yes or no, one choice or several.
//
// A [Form] is the extension x-form of a user_choice, and the values that the user fills in are its x-values: see
// doc/protocol.md §5.4. A tool sends a form with package toolserver. The runtime, MCP clients and the tool itself check values
// with [Form.Check].
//
// The schema of a question is that of an MCP elicitation: an object whose properties are texts, numbers, booleans and selections.
// Nested objects are refused. So are fields that ask for a password or another secret, because nobody should enter one into an
// untrusted form.
package form

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/internal/plain"
)

// A Form consists of one or several questions that are asked together. The zero value has no questions.
type Form struct{ Questions []Question }

// A Question is a part of a form that is answered, or declined, as a whole.
type Question struct {
	// Name distinguishes it from the other questions: up to 64 letters, digits, _ and -.
	Name string
	// Message is the text of the question.
	Message string
	// Fields are what can be filled in. Without fields, the question asks whether the user agrees.
	Fields []Field
}

// A Kind is the type of a field's value.
type Kind string

// The kinds of fields.
const (
	Text    Kind = "text"
	Number  Kind = "number"
	Integer Kind = "integer"
	Boolean Kind = "boolean"
	Choice  Kind = "choice"  // one of Field.Options
	Choices Kind = "choices" // some of Field.Options
)

// A Field is a named value of a question.
type Field struct {
	Name        string // the name of its member in the values
	Kind        Kind
	Title       string // shown in place of the name, if not empty
	Description string
	Required    bool
	Default     jsontext.Value // nil for none
	Options     []Option
	// EnumNames writes the titles of a choice in the format of MCP revisions before 2025-11-25.
	EnumNames bool
	// Format of a text is "email", "uri", "date", "date-time", or empty for any.
	Format string
	// Min and Max bound a number, the characters of a text, or how many options are chosen. Nil means no bound.
	Min, Max *float64
}

var formats = []string{"email", "uri", "date", "date-time"}

// An Option is one of the values of a selection.
type Option struct {
	Value string
	Title string // shown in place of the value, if not empty
}

// Label returns the text to show for the field.
func (f *Field) Label() string {
	if f.Title != "" {
		return f.Title
	}
	return f.Name
}

// Label returns the text to show for the option.
func (o *Option) Label() string {
	if o.Title != "" {
		return o.Title
	}
	return o.Value
}

// The limits of a form. The values may have as many bytes as the form.
const (
	MaxBytes  = 32 << 10 // of a form in JSON, and of its values
	MaxFields = 64       // of all questions

	maxQuestions = 16
	maxOptions   = 256
	maxName      = 256
	maxTitle     = 512
	maxText      = 4 << 10 // of a message or a description
)

var questionName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// IsName reports whether name is valid for a question.
func IsName(name string) bool { return questionName.MatchString(name) }

// IsZero reports whether f has no questions.
func (f Form) IsZero() bool { return len(f.Questions) == 0 }

// Question returns the question with a name, or nil.
func (f *Form) Question(name string) *Question {
	for i := range f.Questions {
		if f.Questions[i].Name == name {
			return &f.Questions[i]
		}
	}
	return nil
}

// Without returns the form without the questions for whose names the function reports true.
func (f *Form) Without(names func(string) bool) Form {
	return Form{Questions: slices.DeleteFunc(slices.Clone(f.Questions), func(q Question) bool { return names(q.Name) })}
}

// validate returns what is wrong with a form.
func (f *Form) validate() error {
	if len(f.Questions) == 0 || len(f.Questions) > maxQuestions {
		return fmt.Errorf("a form has 1 to %d questions, not %d", maxQuestions, len(f.Questions))
	}
	fields, seen := 0, map[string]bool{}
	for i := range f.Questions {
		q := &f.Questions[i]
		switch fields += len(q.Fields); {
		case !IsName(q.Name):
			return fmt.Errorf("%q is no name of a question", short(q.Name))
		case seen[q.Name]:
			return fmt.Errorf("two questions have the name %q", q.Name)
		case fields > MaxFields:
			return fmt.Errorf("a form has %d fields at most", MaxFields)
		}
		seen[q.Name] = true
		if err := q.validate(); err != nil {
			return fmt.Errorf("question %q: %w", q.Name, err)
		}
	}
	return nil
}

func (q *Question) validate() error {
	if len(q.Message) > maxText {
		return fmt.Errorf("its message has more than %d bytes", maxText)
	}
	seen := map[string]bool{}
	for i := range q.Fields {
		f := &q.Fields[i]
		switch {
		case f.Name == "" || len(f.Name) > maxName || strings.ContainsFunc(f.Name, plain.Hidden):
			return fmt.Errorf("%q is no name of a field", short(f.Name))
		case seen[f.Name]:
			return fmt.Errorf("two fields have the name %q", short(f.Name))
		}
		seen[f.Name] = true
		if err := f.validate(); err != nil {
			return fmt.Errorf("field %q: %w", short(f.Name), err)
		}
	}
	return nil
}

func (f *Field) validate() error {
	switch {
	case !slices.Contains([]Kind{Text, Number, Integer, Boolean, Choice, Choices}, f.Kind):
		return fmt.Errorf("%q is no kind of field", short(string(f.Kind)))
	case len(f.Title) > maxTitle || len(f.Description) > maxText:
		return errors.New("its title or description is too long")
	case f.IsSecret():
		return errors.New("it asks for a secret, which a form must not")
	case f.Format != "" && (f.Kind != Text || !slices.Contains(formats, f.Format)):
		return fmt.Errorf("%q is no format", short(f.Format))
	case f.Kind != Choice && f.Kind != Choices && len(f.Options) > 0:
		return fmt.Errorf("a %s has no options", f.Kind)
	case (f.Kind == Choice || f.Kind == Choices) && (len(f.Options) == 0 || len(f.Options) > maxOptions):
		return fmt.Errorf("a selection has 1 to %d options, not %d", maxOptions, len(f.Options))
	}
	values, labels := map[string]bool{}, map[string]bool{}
	for i := range f.Options {
		o := &f.Options[i]
		label := strings.Join(strings.Fields(o.Label()), " ")
		switch {
		case len(o.Value) > maxTitle || len(o.Title) > maxTitle:
			return errors.New("an option is too long")
		case strings.ContainsFunc(o.Value, plain.Hidden) || label == "":
			return errors.New("an option has nothing that can be seen, or something that cannot")
		case values[o.Value] || labels[label]:
			return fmt.Errorf("two options are %q", short(label))
		}
		values[o.Value], labels[label] = true, true
	}
	if !f.isBounded() {
		return errors.New("its bounds leave nothing")
	}
	if f.Default != nil {
		if reason := f.wrong(f.Default); reason != "" {
			return fmt.Errorf("its default %s", reason)
		}
	}
	return nil
}

// isBounded reports whether the bounds are valid for the kind and allow some value.
func (f *Field) isBounded() bool {
	for _, b := range []*float64{f.Min, f.Max} {
		if b != nil && f.Kind != Number && f.Kind != Integer && (*b < 0 || *b != math.Trunc(*b) || *b > 1<<31) {
			return false
		}
	}
	least, most := math.Inf(-1), math.Inf(1)
	if f.Min != nil {
		least = *f.Min
	}
	if f.Max != nil {
		most = *f.Max
	}
	switch f.Kind {
	case Integer:
		least, most = math.Ceil(least), math.Floor(most)
	case Choices:
		most = min(most, float64(len(f.Options)))
	}
	return least <= most
}

// secretWords are words in the names and titles of fields that ask for secrets.
var secretWords = []string{"password", "passphrase", "passwd", "token", "secret", "apikey", "api key", "api_key", "api-key", "private key", "credit card", "card number", "cardnumber", "cvc", "cvv"}

// IsSecret reports whether the name or the title of the field suggests a password, a key or a card.
func (f *Field) IsSecret() bool {
	text := strings.ToLower(f.Name + " " + f.Title)
	return slices.ContainsFunc(secretWords, func(w string) bool { return strings.Contains(text, w) })
}

// short shortens a foreign text for an error.
func short(s string) string {
	if len(s) > 64 {
		s = strings.ToValidUTF8(s[:64], "") + "…"
	}
	return s
}
