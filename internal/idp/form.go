package idp

import (
	"encoding/xml"
	"net/url"
	"strings"
)

// A form is a form of a page, as a browser sees it.
type form struct {
	action string
	method string
	fields []field
}

// A field is an input or a button.
type field struct {
	kind  string // the type attribute, "submit" for buttons
	name  string
	value string
}

// parseForms returns the forms of a page. It uses the XML parser of the standard
// library in its lenient mode, which is sufficient for pages without scripts. It
// stops at what it cannot parse.
func parseForms(page string) []form {
	d := xml.NewDecoder(strings.NewReader(page))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	var forms []form
	inside := false
	for {
		token, err := d.Token()
		if err != nil {
			return forms
		}
		switch t := token.(type) {
		case xml.StartElement:
			switch name := strings.ToLower(t.Name.Local); {
			case name == "form":
				inside = true
				forms = append(forms, form{action: attr(t, "action"), method: strings.ToLower(attr(t, "method"))})
			case inside && (name == "input" || name == "button"):
				f := &forms[len(forms)-1]
				kind := strings.ToLower(attr(t, "type"))
				if kind == "" {
					kind = map[string]string{"input": "text", "button": "submit"}[name]
				}
				f.fields = append(f.fields, field{kind: kind, name: attr(t, "name"), value: attr(t, "value")})
			}
		case xml.EndElement:
			if strings.EqualFold(t.Name.Local, "form") {
				inside = false
			}
		}
	}
}

func attr(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if strings.EqualFold(a.Name.Local, name) {
			return a.Value
		}
	}
	return ""
}

// has reports whether a form has a field of a kind.
func (f form) has(kind string) bool {
	for _, x := range f.fields {
		if x.kind == kind {
			return true
		}
	}
	return false
}

// button returns the submit button with a value.
func (f form) button(value string) (field, bool) {
	for _, x := range f.fields {
		if x.kind == "submit" && x.value == value {
			return x, true
		}
	}
	return field{}, false
}

// values returns what submitting the form sends. Fill maps kinds of fields to
// what is typed there. Buttons are left out.
func (f form) values(fill map[string]string) url.Values {
	v := url.Values{}
	for _, x := range f.fields {
		if x.kind == "submit" || x.name == "" {
			continue
		}
		typed, ok := fill[x.kind]
		if !ok {
			typed = x.value
		}
		v.Add(x.name, typed)
	}
	return v
}
