package reports

import "reflect"

// redactable is a struct that replaces the strings in its unexported fields itself.
type redactable interface{ Redact(f func(string) string) }

// mapStrings replaces every string s in a struct with f(s): in exported fields, behind pointers, in slice elements, and
// in map keys and values. It skips interfaces, arrays and byte slices. It copies shared values behind pointers, slices
// and maps before changing them. No other goroutine may change the struct at the same time.
func mapStrings[T any](in *T, f func(string) string) { mapValue(reflect.ValueOf(in).Elem(), f) }

func mapValue(v reflect.Value, f func(string) string) {
	switch v.Kind() {
	case reflect.String:
		if s := v.String(); s != "" {
			v.SetString(f(s))
		}
	case reflect.Struct:
		if r, ok := v.Addr().Interface().(redactable); ok {
			r.Redact(f)
			return
		}
		for i := range v.NumField() {
			if field := v.Field(i); field.CanSet() {
				mapValue(field, f)
			}
		}
	case reflect.Pointer:
		if !v.IsNil() {
			own := reflect.New(v.Type().Elem())
			own.Elem().Set(v.Elem())
			mapValue(own.Elem(), f)
			v.Set(own)
		}
	case reflect.Slice:
		if v.IsNil() || v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		own := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(own, v)
		for i := range own.Len() {
			mapValue(own.Index(i), f)
		}
		v.Set(own)
	case reflect.Map:
		if v.IsNil() {
			return
		}
		own := reflect.MakeMapWithSize(v.Type(), v.Len())
		for each := v.MapRange(); each.Next(); {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			key.Set(each.Key())
			value.Set(each.Value())
			mapValue(key, f)
			mapValue(value, f)
			own.SetMapIndex(key, value)
		}
		v.Set(own)
	}
}
