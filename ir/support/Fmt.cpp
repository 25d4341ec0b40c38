// The functions of fmt, compiled once. LibTorch brings fmt's headers without its library; as
// headers alone they would be compiled again in each file that formats a text, for 1 to 4 s.
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {
// What its headers declare `extern template`, or declare only.
template auto dragonbox::to_decimal(float) noexcept -> dragonbox::decimal_fp<float>;
template auto dragonbox::to_decimal(double) noexcept -> dragonbox::decimal_fp<double>;
template auto thousands_sep_impl<char>(locale_ref) -> thousands_sep_result<char>;
template auto thousands_sep_impl<wchar_t>(locale_ref) -> thousands_sep_result<wchar_t>;
template auto decimal_point_impl(locale_ref) -> char;
template auto decimal_point_impl(locale_ref) -> wchar_t;
} // namespace detail
FMT_END_NAMESPACE
