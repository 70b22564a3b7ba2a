package cbor

import (
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	fx "github.com/fxamacker/cbor/v2"
)

// The CBOR package encodes some values that it cannot decode: a time outside of the years that RFC 3339
// has, and more levels of arrays and maps than it follows. It drops the seconds of a zone's offset, which
// changes the instant. A snapshot with such a value would be damaged, so Append encodes a time in such a zone in
// UTC, and returns an error for the others.

// expressible reports whether RFC 3339 can express the offset of a time's zone: whole minutes, less than a day.
func expressible(t *time.Time) bool {
	const day = 24 * 60 * 60
	_, offset := t.Zone()
	return offset%60 == 0 && -day < offset && offset < day
}

// checkYear returns an error if RFC 3339 cannot express the year of a time.
func checkYear(t *time.Time) error {
	if y := t.Year(); y < 0 || y > 9999 {
		return fmt.Errorf("cbor: a time in the year %d cannot be encoded: years go from 0 to 9999", y)
	}
	return nil
}

var utcMode = sync.OnceValue(func() fx.UserBufferEncMode { return newEncodeMode(fx.TimeRFC3339NanoUTC) })

// modeFor returns the mode in which all times of v can be encoded.
func modeFor(v reflect.Value) (fx.UserBufferEncMode, error) {
	mode, in := encodeMode(), func(t time.Time) time.Time { return t }
	eachTime(v, func(t *time.Time) error {
		if !expressible(t) {
			mode, in = utcMode(), time.Time.UTC
		}
		return nil
	})
	return mode, eachTime(v, func(t *time.Time) error {
		as := in(*t)
		return checkYear(&as)
	})
}

// eachTime calls do for the times in v, until it returns an error.
func eachTime(v reflect.Value, do func(*time.Time) error) error {
	t := v.Type()
	if t == timeType {
		if !v.CanInterface() { // a field that has no encoding
			return nil
		}
		x := v.Interface().(time.Time)
		return do(&x)
	}
	if !holdsTimes(t) {
		return nil
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return eachTime(v.Elem(), do)
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if err := eachTime(v.Index(i), do); err != nil {
				return err
			}
		}
	case reflect.Map:
		for all := v.MapRange(); all.Next(); {
			for _, x := range []reflect.Value{all.Key(), all.Value()} {
				if err := eachTime(x, do); err != nil {
					return err
				}
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if err := eachTime(v.Field(i), do); err != nil {
				return err
			}
		}
	}
	return nil
}

var timed, nested sync.Map // of reflect.Type to bool: the results of holdsTimes and nests

// holdsTimes reports whether values of type t can contain times that t does not encode itself.
func holdsTimes(t reflect.Type) bool {
	return cached(&timed, t, func() bool {
		return contains(t, nil, func(t reflect.Type, _ bool) bool { return t == timeType })
	})
}

// nests reports whether values of type t can be nested without a limit, since a type in t contains itself.
func nests(t reflect.Type) bool {
	return cached(&nested, t, func() bool {
		return contains(t, nil, func(_ reflect.Type, again bool) bool { return again })
	})
}

func cached(in *sync.Map, t reflect.Type, f func() bool) bool {
	if is, ok := in.Load(t); ok {
		return is.(bool)
	}
	is := f()
	in.Store(t, is)
	return is
}

// contains reports whether what holds of t or a type in it, outside of types that encode themselves. Again says that
// the type contains itself.
func contains(t reflect.Type, within []reflect.Type, what func(t reflect.Type, again bool) bool) bool {
	again := slices.Contains(within, t)
	if what(t, again) {
		return true
	}
	if again || encodesItself(t) {
		return false
	}
	within = append(within, t)
	switch t.Kind() {
	case reflect.Map:
		return contains(t.Key(), within, what) || contains(t.Elem(), within, what)
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return contains(t.Elem(), within, what)
	case reflect.Struct:
		for i := range t.NumField() {
			if contains(t.Field(i).Type, within, what) {
				return true
			}
		}
	}
	return false
}

// nestingMode is the mode of Decode with fewer levels, since what it checks may be part of another value.
var nestingMode = sync.OnceValue(func() fx.DecMode {
	o := decodeMode().DecOptions()
	o.MaxNestedLevels = 60_000
	m, err := o.DecMode()
	if err != nil {
		panic(err)
	}
	return m
})
