package cbor

import (
	"cmp"
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	fx "github.com/fxamacker/cbor/v2"
)

// checked caches the results of Check.
var checked sync.Map // of reflect.Type to error or nil

// Check returns an error if values of a type would not be decoded as they were.
func (Codec) Check(t reflect.Type) error {
	if err, ok := checked.Load(t); ok {
		err, _ := err.(error)
		return err
	}
	err := checkType(t, nil)
	checked.Store(t, err)
	return err
}

var (
	timeType          = reflect.TypeFor[time.Time]()
	binaryMarshaler   = reflect.TypeFor[encoding.BinaryMarshaler]()
	binaryUnmarshaler = reflect.TypeFor[encoding.BinaryUnmarshaler]()
	cborMarshaler     = reflect.TypeFor[fx.Marshaler]()
	cborUnmarshaler   = reflect.TypeFor[fx.Unmarshaler]()
)

// encodesItself reports whether t implements its own encoding, in both directions.
func encodesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return t.Implements(binaryMarshaler) && p.Implements(binaryUnmarshaler) ||
		t.Implements(cborMarshaler) && p.Implements(cborUnmarshaler)
}

// checkType checks t, which is nested in the types of within.
func checkType(t reflect.Type, within []reflect.Type) error {
	for _, outer := range within {
		if outer == t {
			return nil
		}
	}
	if t == timeType || encodesItself(t) {
		return nil
	}
	if err := checkMethods(t); err != nil {
		return err
	}
	within = append(within, t)
	switch t.Kind() {
	case reflect.Bool, reflect.String, reflect.Float32, reflect.Float64,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return nil
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return checkType(t.Elem(), within)
	case reflect.Map:
		if err := checkType(t.Key(), within); err != nil {
			return err
		}
		return checkType(t.Elem(), within)
	case reflect.Struct:
		return checkFields(t, within)
	case reflect.Interface:
		return fmt.Errorf("%v is an interface: what is in it could not be decoded", t)
	}
	return fmt.Errorf("%v is a %v, which has no encoding", t, t.Kind())
}

// CheckKey returns an error if values of a type cannot be keys: it has a pointer, and what a pointer is decoded as is equal to
// none that came earlier. A type that encodes itself decides what it is decoded as.
func (Codec) CheckKey(t reflect.Type) error {
	if t.Kind() == reflect.Pointer {
		return fmt.Errorf("%v is a pointer, which is decoded as another pointer: use what it points to", t)
	}
	if t == timeType || encodesItself(t) {
		return nil
	}
	switch t.Kind() {
	case reflect.Array:
		if t.Len() > 0 {
			return Codec{}.CheckKey(t.Elem())
		}
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			if err := (Codec{}).CheckKey(f.Type); err != nil {
				return fmt.Errorf("field %s of %v: %w", f.Name, t, err)
			}
		}
	}
	return nil
}

func checkFields(t reflect.Type, within []reflect.Type) error {
	if err := checkNames(t, t, nil, make(map[string]string)); err != nil {
		return err
	}
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() && !(f.Anonymous && f.Type.Kind() == reflect.Struct) {
			if f.Type.Size() == 0 { // such as a marker that forbids comparison
				continue
			}
			return fmt.Errorf("field %s of %v is not exported and would be lost: export it, or give %v MarshalBinary and UnmarshalBinary", f.Name, t, t)
		}
		if f.Tag.Get("cbor") == "-" || f.Tag.Get("cbor") == "" && f.Tag.Get("json") == "-" {
			return fmt.Errorf("field %s of %v has the tag %q and would be lost", f.Name, t, "-")
		}
		if err := checkType(f.Type, within); err != nil {
			return fmt.Errorf("field %s of %v: %w", f.Name, t, err)
		}
	}
	return nil
}

// checkMethods returns an error if the CBOR package would use only one of two methods that belong together. A pointer has those of
// what it points to.
func checkMethods(t reflect.Type) error {
	if t.Kind() == reflect.Pointer {
		return nil
	}
	p := reflect.PointerTo(t)
	for _, pair := range []struct {
		marshaler, unmarshaler reflect.Type
		missing                string
	}{
		{cborMarshaler, cborUnmarshaler, "UnmarshalCBOR"},
		{binaryMarshaler, binaryUnmarshaler, "UnmarshalBinary"},
	} {
		if t.Implements(pair.marshaler) && !p.Implements(pair.unmarshaler) {
			return fmt.Errorf("%v encodes itself, but could not be decoded: give it %s", t, pair.missing)
		}
	}
	return nil
}

// checkNames returns an error if two fields of outer have the same name in the encoding: the CBOR package would
// leave out at least one of them. T is outer or a struct that is embedded in it, within those of embedding. Taken
// has the fields by their names.
func checkNames(outer, t reflect.Type, embedding []reflect.Type, taken map[string]string) error {
	if slices.Contains(embedding, t) { // a struct that embeds a pointer to itself
		return nil
	}
	embedding = append(embedding, t)
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(cmp.Or(f.Tag.Get("cbor"), f.Tag.Get("json")), ",")
		of := f.Type
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		if f.Anonymous && of.Kind() == reflect.Struct && name == "" {
			if err := checkNames(outer, of, embedding, taken); err != nil {
				return err
			}
			continue
		}
		if !f.IsExported() {
			continue
		}
		name = cmp.Or(name, f.Name)
		key := name
		if strings.Contains(options, "keyasint") {
			key += " as a number"
		}
		field := f.Name
		if t != outer {
			field = t.String() + "." + field
		}
		if other, ok := taken[key]; ok {
			return fmt.Errorf("fields %s and %s of %v are both encoded as %q, and one of them would be lost: give one another name in a tag", other, field, outer, name)
		}
		taken[key] = field
	}
	return nil
}
