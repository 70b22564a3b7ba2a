package agentproto

import (
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto/internal/ids"
)

// An object reads the members of one JSON object. Errors are collected in its failure, so that a message can be read from top to
// bottom without checking errors. Names are compared exactly, and unknown members are ignored. A null is the same as an absent
// member.
type object struct {
	*failure
	at      string // JSON pointer of the object
	members map[string]jsontext.Value
}

// openMessage scans data and returns its top-level object. If the scan failed, the object
// is empty.
func openMessage(message string, data []byte, lim Limits) *object {
	o := &object{failure: &failure{message: message}}
	if o.scan(data, lim.orDefaults()); o.err == nil {
		o.members = splitObject(data)
	}
	return o
}

// pointer returns the JSON pointer of a member.
func (o *object) pointer(name string) string {
	return o.at + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

// optional returns a member. It returns nil if the member is absent or null, and refuses one of another kind.
func (o *object) optional(name string, kind jsontext.Kind, want string) jsontext.Value {
	value, ok := o.members[name]
	if !ok || value.Kind() == 'n' {
		return nil
	}
	got := value.Kind()
	if got == 'f' {
		got = 't'
	}
	if got != kind {
		o.refuse(o.pointer(name), "must be %s", want)
		return nil
	}
	return value
}

// required is like optional for a member that must be present.
func (o *object) required(name string, kind jsontext.Kind, want string) jsontext.Value {
	value := o.optional(name, kind, want)
	if value == nil {
		o.refuse(o.pointer(name), "is missing")
	}
	return value
}

// str returns a required string.
func (o *object) str(name string) string {
	return unquote(o.required(name, '"', "a string"))
}

// optStr returns an optional string, or nil.
func (o *object) optStr(name string) *string {
	if value := o.optional(name, '"', "a string"); value != nil {
		s := unquote(value)
		return &s
	}
	return nil
}

// id returns a required id.
func (o *object) id(name string) string {
	value := o.required(name, '"', "a string")
	if value == nil {
		return ""
	}
	return o.checkID(name, unquote(value))
}

// optID returns an optional id, or nil. Unlike a required one it may be empty.
func (o *object) optID(name string) *string {
	s := o.optStr(name)
	if s != nil && *s != "" {
		o.checkID(name, *s)
	}
	return s
}

// checkID returns s if it is an id, and otherwise refuses it and returns "".
func (o *object) checkID(name, s string) string {
	if reason := ids.Reason(s); reason != "" {
		o.refuse(o.pointer(name), "%s", reason)
		return ""
	}
	return s
}

// boolean returns an optional boolean, false if it is absent.
func (o *object) boolean(name string) bool {
	value := o.optional(name, 't', "a boolean")
	return value != nil && value.Kind() == 't'
}

// integer returns a required integer. It may be written as 2.0 or 20e-1.
func (o *object) integer(name string) int {
	value := o.required(name, '0', "an integer")
	if value == nil {
		return 0
	}
	// Exact arithmetic is cheap, because scan has bounded the exponent.
	x, ok := new(big.Rat).SetString(string(value))
	if !ok || !x.IsInt() || !x.Num().IsInt64() || x.Num().Int64() > math.MaxInt32 || x.Num().Int64() < math.MinInt32 {
		o.refuse(o.pointer(name), "must be an integer of at most 32 bits")
		return 0
	}
	return int(x.Num().Int64())
}

// url returns a required URL that check accepts.
func (o *object) url(name string, check func(string) string) string {
	value := o.required(name, '"', "a string")
	if value == nil {
		return ""
	}
	s := unquote(value)
	if reason := check(s); reason != "" {
		o.refuse(o.pointer(name), "%s", reason)
		return ""
	}
	return s
}

// object returns a required object as a copy in compact form.
func (o *object) object(name string) jsontext.Value {
	if value := o.required(name, '{', "an object"); value != nil {
		return canonical(value)
	}
	return nil
}

// extension returns an optional member of any kind as a copy in compact form, or nil. It refuses nothing, because others may use
// the name differently.
func (o *object) extension(name string) jsontext.Value {
	if value, ok := o.members[name]; ok && value.Kind() != 'n' {
		return canonical(value)
	}
	return nil
}

// child returns an object for reading a member. It is empty if value is nil.
func (o *object) child(name string, value jsontext.Value) *object {
	c := &object{failure: o.failure, at: o.pointer(name)}
	if value != nil {
		c.members = splitObject(value)
	}
	return c
}

// element returns an object for reading an element of an array.
func (o *object) element(index int, value jsontext.Value) *object {
	return o.child(strconv.Itoa(index), value)
}

// each calls f for the elements of an optional array. It stops at the first error. It reports whether the array is present.
func (o *object) each(name string, kind jsontext.Kind, want string, f func(at *object, index int, value jsontext.Value)) bool {
	array := o.optional(name, '[', "an array")
	if array == nil {
		return false
	}
	at := &object{failure: o.failure, at: o.pointer(name)}
	for i, value := range elements(array) {
		if value.Kind() != kind {
			o.refuse(at.pointer(strconv.Itoa(i)), "must be %s", want)
		}
		if o.err != nil {
			break
		}
		f(at, i, value)
	}
	return true
}

// unquote returns the string that a JSON string represents.
func unquote(value jsontext.Value) string {
	s, _ := jsontext.AppendUnquote(nil, value)
	return string(s)
}
