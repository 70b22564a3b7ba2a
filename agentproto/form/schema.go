package form

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A fieldSchema is the schema of a field, with the members of all kinds. The members are written in this order.
type fieldSchema struct {
	Type        string         `json:"type"`
	Title       string         `json:"title,omitzero"`
	Description string         `json:"description,omitzero"`
	Enum        []string       `json:"enum,omitempty"`
	EnumNames   []string       `json:"enumNames,omitempty"`
	OneOf       []titled       `json:"oneOf,omitempty"`
	AnyOf       []titled       `json:"anyOf,omitempty"` // of items
	Items       *fieldSchema   `json:"items,omitzero"`
	Format      string         `json:"format,omitzero"`
	MinLength   *float64       `json:"minLength,omitzero"`
	MaxLength   *float64       `json:"maxLength,omitzero"`
	Minimum     *float64       `json:"minimum,omitzero"`
	Maximum     *float64       `json:"maximum,omitzero"`
	MinItems    *float64       `json:"minItems,omitzero"`
	MaxItems    *float64       `json:"maxItems,omitzero"`
	Default     jsontext.Value `json:"default,omitzero"`
}

type titled struct {
	Const string `json:"const"`
	Title string `json:"title"`
}

// Schema returns the JSON schema of a question's values, in the format of MCP elicitation.
func (q *Question) Schema() (jsontext.Value, error) {
	var b bytes.Buffer
	b.WriteString(`{"type":"object","properties":{`)
	required := []string{}
	for i := range q.Fields {
		f := &q.Fields[i]
		if f.Required {
			required = append(required, f.Name)
		}
		name, err := json.Marshal(f.Name)
		if err != nil {
			return nil, err
		}
		schema, err := json.Marshal(f.schema())
		if err != nil {
			return nil, fmt.Errorf("field %q: %w", short(f.Name), err)
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(schema)
	}
	b.WriteString(`}`)
	if len(required) > 0 {
		names, err := json.Marshal(required)
		if err != nil {
			return nil, err
		}
		b.WriteString(`,"required":`)
		b.Write(names)
	}
	b.WriteString(`}`)
	return b.Bytes(), nil
}

func (f *Field) schema() fieldSchema {
	s := fieldSchema{Title: f.Title, Description: f.Description, Format: f.Format, Default: f.Default}
	switch f.Kind {
	case Text:
		s.Type, s.MinLength, s.MaxLength = "string", f.Min, f.Max
	case Number, Integer:
		s.Type, s.Minimum, s.Maximum = string(f.Kind), f.Min, f.Max
	case Boolean:
		s.Type = "boolean"
	case Choice:
		s.Type = "string"
		f.options(&s, &s.OneOf)
	case Choices:
		s.Type, s.MinItems, s.MaxItems, s.Items = "array", f.Min, f.Max, new(fieldSchema)
		f.options(s.Items, &s.Items.AnyOf)
		if s.Items.AnyOf == nil {
			s.Items.Type = "string"
		}
	}
	return s
}

// options writes the options of a field, with titles if at least one has a title.
func (f *Field) options(s *fieldSchema, titles *[]titled) {
	hasTitles := slices.ContainsFunc(f.Options, func(o Option) bool { return o.Title != "" })
	for i := range f.Options {
		o := &f.Options[i]
		switch {
		case !hasTitles:
			s.Enum = append(s.Enum, o.Value)
		case f.EnumNames && f.Kind == Choice:
			s.Enum, s.EnumNames = append(s.Enum, o.Value), append(s.EnumNames, o.Label())
		default:
			*titles = append(*titles, titled{o.Value, o.Label()})
		}
	}
}

// MarshalJSONTo writes a schema, without a type if it has none.
func (s *fieldSchema) MarshalJSONTo(e *jsontext.Encoder) error {
	type plainSchema fieldSchema
	if s.Type != "" {
		return json.MarshalEncode(e, (*plainSchema)(s))
	}
	return json.MarshalEncode(e, struct {
		AnyOf []titled `json:"anyOf"`
	}{s.AnyOf})
}

// Fields returns the fields of an object's JSON schema, in the order of its properties. It returns an error for a property that
// is none of the kinds.
func Fields(schema jsontext.Value) ([]Field, error) {
	var s struct {
		Type       string         `json:"type"`
		Properties jsontext.Value `json:"properties"`
		Required   []string       `json:"required"`
	}
	if err := json.Unmarshal(schema, &s); err != nil || s.Type != "object" && s.Type != "" {
		return nil, errors.New("the schema is not that of an object")
	}
	if s.Properties == nil {
		s.Properties = jsontext.Value("{}")
	}
	d := jsontext.NewDecoder(bytes.NewReader(s.Properties))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return nil, errors.New("the properties of the schema are no object")
	}
	var all []Field
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, errors.New("the schema is no JSON")
		}
		f := Field{Name: name.String()}
		if len(all) >= MaxFields {
			return nil, fmt.Errorf("a form has %d fields at most", MaxFields)
		}
		var p fieldSchema
		value, err := d.ReadValue()
		if err != nil || json.Unmarshal(value, &p) != nil {
			return nil, fmt.Errorf("field %q is not described in a way that can be shown", short(f.Name))
		}
		f.Required = slices.Contains(s.Required, f.Name)
		if err := f.read(&p); err != nil {
			return nil, fmt.Errorf("field %q: %w", short(f.Name), err)
		}
		all = append(all, f)
	}
	for _, name := range s.Required {
		if !slices.ContainsFunc(all, func(f Field) bool { return f.Name == name }) {
			return nil, fmt.Errorf("field %q is required and not described", short(name))
		}
	}
	return all, nil
}

// read sets a field from its schema.
func (f *Field) read(p *fieldSchema) error {
	f.Title, f.Description = seen(p.Title), seen(p.Description)
	if p.Default != nil && p.Default.Kind() != 'n' {
		f.Default = bytes.Clone(p.Default)
	}
	of, titles := p, p.OneOf
	switch {
	case p.Type == "string" && (p.Enum != nil || p.OneOf != nil):
		f.Kind, f.EnumNames = Choice, p.EnumNames != nil
	case p.Type == "string":
		f.Kind, f.Min, f.Max = Text, p.MinLength, p.MaxLength
		if slices.Contains(formats, p.Format) { // others cannot be checked here
			f.Format = p.Format
		}
		return nil
	case p.Type == "number", p.Type == "integer":
		f.Kind, f.Min, f.Max = Kind(p.Type), p.Minimum, p.Maximum
		return nil
	case p.Type == "boolean":
		f.Kind = Boolean
		return nil
	case p.Type == "array" && p.Items != nil && (p.Items.Enum != nil || p.Items.AnyOf != nil || p.Items.OneOf != nil):
		f.Kind, f.Min, f.Max, of = Choices, p.MinItems, p.MaxItems, p.Items
		if titles = of.AnyOf; titles == nil {
			titles = of.OneOf
		}
	case p.Type == "object", p.Type == "array":
		return errors.New("an object or array in a form cannot be shown")
	default:
		return fmt.Errorf("%q is no type of a form", short(p.Type))
	}
	for i, value := range of.Enum {
		o := Option{Value: value}
		if len(of.EnumNames) == len(of.Enum) {
			o.Title = seen(of.EnumNames[i])
		}
		f.Options = append(f.Options, o)
	}
	if of.Enum == nil {
		for _, t := range titles {
			f.Options = append(f.Options, Option{t.Const, seen(t.Title)})
		}
	}
	return nil
}
