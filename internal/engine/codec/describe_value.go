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

// A shown prints a value for people. It prints what pointers point to instead of their addresses, so that two descriptions of one
// state are equal. It prints strings so that they can neither affect a terminal nor look like another line.
type shown struct{ v any }

// deepest bounds how deep a description goes into a value, which may point to itself.
const deepest = 16

func (s shown) Format(f fmt.State, verb rune) {
	if verb == 'd' {
		fmt.Fprintf(f, "%d", s.v)
		return
	}
	var b strings.Builder
	(&printer{b: &b, methods: true}).show(reflect.ValueOf(s.v), 0)
	io.WriteString(f, b.String())
}

// Show returns the description of a value, cut after most bytes. It calls no method of the program: the value may belong to a
// location that makes no step until it is printed, and such a method could wait for the location.
func Show(v any, most int) string {
	p := &printer{b: new(strings.Builder), most: most}
	p.show(reflect.ValueOf(v), 0)
	if p.b.Len() <= most {
		return p.b.String()
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(p.b.String()[cut]) {
		cut--
	}
	return p.b.String()[:cut] + "…"
}

// largestMap is the largest number of entries of a map that is shown while a location waits, because they are sorted.
const largestMap = 1000

// A printer prints a value.
type printer struct {
	b       *strings.Builder
	methods bool // methods of the program may be called
	most    int  // bytes after which nothing more is printed; 0 means no limit
}

func (p *printer) full() bool { return p.most > 0 && p.b.Len() > p.most }

func (p *printer) show(v reflect.Value, depth int) {
	b := p.b
	if p.full() {
		return
	}
	if !v.IsValid() {
		b.WriteString("<nil>")
		return
	}
	if depth > deepest {
		b.WriteString("…")
		return
	}
	if v.CanInterface() && printsItself(v.Type(), p.methods) && (v.Kind() != reflect.Pointer || !v.IsNil()) {
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
		p.show(v.Elem(), depth+1)
	case reflect.Interface:
		p.show(v.Elem(), depth)
	case reflect.Struct:
		b.WriteByte('{')
		for i := range v.NumField() {
			if i > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(v.Type().Field(i).Name + ":")
			p.show(v.Field(i), depth+1)
		}
		b.WriteByte('}')
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 && v.Kind() == reflect.Slice && utf8.ValidString(p.part(string(v.Bytes()))) {
			b.WriteString(printable(p.part(string(v.Bytes()))))
			return
		}
		b.WriteByte('[')
		for i := 0; i < v.Len() && !p.full(); i++ {
			if i > 0 {
				b.WriteByte(' ')
			}
			p.show(v.Index(i), depth+1)
		}
		b.WriteByte(']')
	case reflect.Map:
		if p.most > 0 && v.Len() > largestMap {
			fmt.Fprintf(b, "map[%d entries]", v.Len())
			return
		}
		b.WriteString("map[")
		entries := make([]string, 0, v.Len())
		for each := v.MapRange(); each.Next(); {
			e := &printer{b: new(strings.Builder), methods: p.methods, most: p.most}
			e.show(each.Key(), depth+1)
			e.b.WriteByte(':')
			e.show(each.Value(), depth+1)
			entries = append(entries, e.b.String())
		}
		slices.SortFunc(entries, cmp.Compare)
		b.WriteString(strings.Join(entries, " ") + "]")
	case reflect.String:
		b.WriteString(printable(p.part(v.String())))
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
		b.WriteString(v.Type().String())
	default:
		p.number(v)
	}
}

// number prints a number or a bool, which may have a method.
func (p *printer) number(v reflect.Value) {
	switch {
	case p.methods:
		fmt.Fprint(p.b, v)
	case v.CanInt():
		fmt.Fprint(p.b, v.Int())
	case v.CanUint():
		fmt.Fprint(p.b, v.Uint())
	case v.CanFloat():
		fmt.Fprint(p.b, v.Float())
	case v.CanComplex():
		fmt.Fprint(p.b, v.Complex())
	default:
		fmt.Fprint(p.b, v.Bool())
	}
}

// part returns as much of a string as there is room for, and a little more.
func (p *printer) part(s string) string {
	if p.most == 0 || len(s) <= p.most+utf8.UTFMax {
		return s
	}
	end := p.most + utf8.UTFMax
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}

// printsItself reports whether a type has a method that is suitable for printing: Error, or String of the standard library or of a type
// without pointers, whose addresses it might print. Methods of the program count only if they may be called.
func printsItself(t reflect.Type, methods bool) bool {
	isError := t.Implements(reflect.TypeFor[error]())
	if !isError && !t.Implements(reflect.TypeFor[fmt.Stringer]()) {
		return false
	}
	of := t
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if !methods {
		return slices.Contains(harmless, of.PkgPath())
	}
	domain, _, _ := strings.Cut(of.PkgPath(), "/")
	standard := of.PkgPath() != "" && !strings.Contains(domain, ".")
	return isError || standard || flat(t, 0)
}

// harmless are packages whose methods call no code of the program.
var harmless = []string{"math/big", "net/netip", "time"}

// flat reports whether values of a type contain no pointer that fmt would print.
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

// printable returns a string unchanged if it contains nothing invisible, and otherwise quoted.
func printable(s string) string {
	for _, r := range s {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return strconv.Quote(s)
		}
	}
	return s
}
