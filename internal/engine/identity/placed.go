package identity

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// A key that has no affinity is in the partition that its encoding determines. So a program that encodes such keys in another way
// looks for what the history has of them in other partitions, and would take a request for a new one that came before.

// placing describes the type by whose encoding an operator places keys. It is not part of a history, which has the fields of
// structs, and in a history it is nil.
type placing struct {
	of      reflect.Type
	structs map[string]map[string]bool // the fields of its structs, by name; true if a zero value is left out of the encoding
}

func newPlacing(of reflect.Type) *placing {
	if of == nil {
		return nil
	}
	found := make(map[reflect.Type]bool)
	find(of, found, make(map[reflect.Type]string))
	p := &placing{of, make(map[string]map[string]bool)}
	for t := range found {
		if t.Kind() != reflect.Struct {
			continue
		}
		fields := p.structs[t.String()]
		if fields == nil {
			fields = make(map[string]bool)
			p.structs[t.String()] = fields
		}
		for i := range t.NumField() {
			f := t.Field(i)
			_, options, _ := strings.Cut(cmp.Or(f.Tag.Get("cbor"), f.Tag.Get("json")), ",")
			left, another := fields[f.Name] // of another struct of this name; nothing says which of them a history means
			fields[f.Name] = leftOut(strings.Split(options, ","), f.Type) && (left || !another)
		}
	}
	return p
}

// leftOut reports whether the zero value of a field is not encoded.
func leftOut(options []string, t reflect.Type) bool {
	if slices.Contains(options, "omitzero") {
		return true
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Array:
		return false
	}
	return slices.Contains(options, "omitempty")
}

// moves returns why keys with a struct whose fields were before and are now are encoded in another way than before, or "".
func (p *placing) moves(typ string, before, now map[string]string) string {
	if p == nil || p.structs[typ] == nil {
		return ""
	}
	for f := range ordered(now) {
		if _, ok := before[f]; !ok && !p.structs[typ][f] {
			return fmt.Sprintf("field %s of %s is new and always encoded; with the option omitzero, a key in which it is zero stays where it is", f, typ)
		}
	}
	for f := range ordered(before) {
		if _, ok := now[f]; !ok {
			return fmt.Sprintf("field %s of %s is gone", f, typ)
		}
	}
	return ""
}

// converts returns why keys that are converted are encoded in another way than before, or "".
func (p *placing) converts(all []Conversion) string {
	if p == nil {
		return ""
	}
	for _, x := range all {
		_, inside := p.structs[x.To.String()]
		if (x.To == p.of || inside) && encoded(x.From, nil) != encoded(x.To, nil) {
			return fmt.Sprintf("%v is converted to %v", x.From, x.To)
		}
	}
	return ""
}

// encoded describes how values of a type are encoded. Types with one description encode equal values in the same way.
func encoded(t reflect.Type, within []reflect.Type) string {
	if slices.Contains(within, t) {
		return "itself"
	}
	within = append(within, t)
	switch t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "integer"
	case reflect.Pointer, reflect.Array:
		return t.Kind().String() + " " + encoded(t.Elem(), within)
	case reflect.Struct:
		var fields []string
		for i := range t.NumField() {
			f := t.Field(i)
			if !f.IsExported() && !f.Anonymous {
				return t.String() // it encodes itself
			}
			fields = append(fields, fmt.Sprintf("%s %s %s", f.Name, f.Tag, encoded(f.Type, within)))
		}
		slices.Sort(fields)
		return "struct " + strings.Join(fields, "; ")
	}
	return t.Kind().String()
}
