package director

import "reflect"

// mapStrings puts f(s) in the place of every string s in a struct that nobody else changes: in exported fields,
// in what pointers lead to, in elements of slices, and in keys and values of maps; not in interfaces, arrays
// and byte slices. What pointers, slices and maps lead to is copied, since others may have it.
func mapStrings[T any](in *T, f func(string) string) { mapValue(reflect.ValueOf(in).Elem(), f) }

func mapValue(v reflect.Value, f func(string) string) {
	switch v.Kind() {
	case reflect.String:
		if s := v.String(); s != "" {
			v.SetString(f(s))
		}
	case reflect.Struct:
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
