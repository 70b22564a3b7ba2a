package codec

import (
	"cmp"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A shown prints a value for people: what its pointers point to and not their addresses,
// so that two descriptions of one state are equal, and texts so that they cannot
// do anything to a terminal or look like another line.
type shown struct{ v any }

// deepest bounds how deep into a value a description goes: it may point to itself.
const deepest = 16

func (s shown) Format(f fmt.State, verb rune) {
	if verb == 'd' {
		fmt.Fprintf(f, "%d", s.v)
		return
	}
	var b strings.Builder
	show(&b, reflect.ValueOf(s.v), 0)
	io.WriteString(f, b.String())
}

func show(b *strings.Builder, v reflect.Value, depth int) {
	if !v.IsValid() {
		b.WriteString("<nil>")
		return
	}
	if depth > deepest {
		b.WriteString("…")
		return
	}
	if v.CanInterface() && says(v.Type()) && (v.Kind() != reflect.Pointer || !v.IsNil()) {
		b.WriteString(printable(fmt.Sprint(v.Interface())))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			b.WriteString("<nil>")
			return
		}
		b.WriteByte('&')
		show(b, v.Elem(), depth+1)
	case reflect.Interface:
		show(b, v.Elem(), depth)
	case reflect.Struct:
		b.WriteByte('{')
		for i := range v.NumField() {
			if i > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(v.Type().Field(i).Name + ":")
			show(b, v.Field(i), depth+1)
		}
		b.WriteByte('}')
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 && v.Kind() == reflect.Slice && utf8.Valid(v.Bytes()) {
			b.WriteString(printable(string(v.Bytes())))
			return
		}
		b.WriteByte('[')
		for i := range v.Len() {
			if i > 0 {
				b.WriteByte(' ')
			}
			show(b, v.Index(i), depth+1)
		}
		b.WriteByte(']')
	case reflect.Map:
		b.WriteString("map[")
		entries := make([]string, 0, v.Len())
		for each := v.MapRange(); each.Next(); {
			var e strings.Builder
			show(&e, each.Key(), depth+1)
			e.WriteByte(':')
			show(&e, each.Value(), depth+1)
			entries = append(entries, e.String())
		}
		slices.SortFunc(entries, cmp.Compare)
		b.WriteString(strings.Join(entries, " ") + "]")
	case reflect.String:
		b.WriteString(printable(v.String()))
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
		b.WriteString(v.Type().String())
	default:
		fmt.Fprint(b, v)
	}
}

// says reports whether a type has a method that is good to print: that of an error, or a
// String of the standard library or of a type without pointers, whose addresses it might print.
func says(t reflect.Type) bool {
	if t.Implements(reflect.TypeFor[error]()) {
		return true
	}
	if !t.Implements(reflect.TypeFor[fmt.Stringer]()) {
		return false
	}
	of := t
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	domain, _, _ := strings.Cut(of.PkgPath(), "/")
	standard := of.PkgPath() != "" && !strings.Contains(domain, ".")
	return standard || flat(t, 0)
}

// flat reports whether no value of a type has a pointer in it that fmt would print.
func flat(t reflect.Type, depth int) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Map, reflect.Func, reflect.Chan, reflect.UnsafePointer:
		return false
	case reflect.Slice, reflect.Array:
		return depth < deepest && flat(t.Elem(), depth+1)
	case reflect.Struct:
		for i := range t.NumField() {
			if !flat(t.Field(i).Type, depth+1) {
				return false
			}
		}
	}
	return true
}

// printable returns a text as it is if nothing in it is invisible, and else quoted.
func printable(s string) string {
	for _, r := range s {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return strconv.Quote(s)
		}
	}
	return s
}
