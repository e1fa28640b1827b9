package retryafter

import (
	_ "embed"
	"strings"
	"time"
)

// zoneData is the IANA time zone database (public domain) as Go's distribution packs it, lib/time/zoneinfo.zip: a zip
// without compression. It is embedded, so a name has the same meaning on every machine, without reading files.
//
//go:embed zoneinfo.zip
var zoneData string

// zoneAbbreviations maps the names that people and programs print to IANA names. An ambiguous name has its North
// American meaning.
var zoneAbbreviations = map[string]string{
	"utc": "UTC", "gmt": "UTC", "z": "UTC", "zulu": "UTC",
	"pt": "America/Los_Angeles", "pst": "America/Los_Angeles", "pdt": "America/Los_Angeles",
	"pacific": "America/Los_Angeles",
	"mt":      "America/Denver", "mst": "America/Denver", "mdt": "America/Denver", "mountain": "America/Denver",
	"ct": "America/Chicago", "cst": "America/Chicago", "cdt": "America/Chicago", "central": "America/Chicago",
	"et": "America/New_York", "est": "America/New_York", "edt": "America/New_York", "eastern": "America/New_York",
	"wet": "Europe/Lisbon", "west": "Europe/Lisbon", "bst": "Europe/London",
	"cet": "Europe/Paris", "cest": "Europe/Paris", "eet": "Europe/Kyiv", "eest": "Europe/Kyiv", "msk": "Europe/Moscow",
	"ist": "Asia/Kolkata", "jst": "Asia/Tokyo", "kst": "Asia/Seoul", "sgt": "Asia/Singapore", "hkt": "Asia/Hong_Kong",
	"aest": "Australia/Sydney", "aedt": "Australia/Sydney", "nzst": "Pacific/Auckland", "nzdt": "Pacific/Auckland",
}

// zoneNamed returns the zone of an abbreviation or an IANA name, ignoring case.
func zoneNamed(name string) (loc *time.Location, ok bool) {
	if full, ok := zoneAbbreviations[strings.ToLower(name)]; ok {
		name = full
	}
	if strings.EqualFold(name, "UTC") {
		return time.UTC, true
	}
	data, full := zoneFile(name)
	if data == nil {
		return time.UTC, false
	}
	loc, err := time.LoadLocationFromTZData(full, data)
	if err != nil {
		return time.UTC, false
	}
	return loc, true
}

// zoneFile finds name among the zip's entries: local headers of 30 bytes, each followed by its name, extra field and
// data.
func zoneFile(name string) (data []byte, full string) {
	const header, signature = 30, "PK\x03\x04"
	for rest := zoneData; strings.HasPrefix(rest, signature) && len(rest) > header; {
		size := int(rest[18]) | int(rest[19])<<8 | int(rest[20])<<16
		nameEnd := header + int(rest[26]) + int(rest[27])<<8
		begin := nameEnd + int(rest[28]) + int(rest[29])<<8
		if begin+size > len(rest) {
			return nil, ""
		}
		if entry := rest[header:nameEnd]; size > 0 && strings.EqualFold(entry, name) {
			return []byte(rest[begin : begin+size]), entry
		}
		rest = rest[begin+size:]
	}
	return nil, ""
}
